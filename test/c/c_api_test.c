// The C interface from end to end, by a program in C: capacity, rows, hits, forks, segments, and
// attention against sums in plain double precision.
#include <math.h>

#include "c_testing.h"

int checks_failed = 0;

// One row that attention may see: its token, where it was stored, how far it was moved.
struct seen_row {
  uint32_t token;
  uint64_t stored;
  uint64_t delta;
};

// Query element d of a head, turned back by `delta` positions: pairs (d, d + 4), frequencies
// 10000^(-2d/8) (Su et al. 2021; Llama's order of channels).
static double turned(const float* q, uint32_t d, uint64_t delta) {
  const uint32_t half = HEAD_DIM / 2;
  const uint32_t pair = d % half;
  const double angle = -(double)delta * pow(10000.0, -2.0 * pair / HEAD_DIM);
  const double x = (double)q[pair];
  const double y = (double)q[pair + half];
  return d < half ? x * cos(angle) - y * sin(angle) : x * sin(angle) + y * cos(angle);
}

// One head of one query over `count` rows; out [HEAD_DIM]. Gives back the lse.
static double attend_plainly(const float* q, uint32_t layer, uint32_t head,
                             const struct seen_row* rows, uint64_t count, double* out) {
  const uint32_t kv = head / (QUERY_HEADS / KV_HEADS);
  double sum = 0;
  for (uint32_t d = 0; d < HEAD_DIM; ++d) out[d] = 0;
  for (uint64_t r = 0; r < count; ++r) {
    double dot = 0;
    for (uint32_t d = 0; d < HEAD_DIM; ++d) {
      const double key = row_number(layer, rows[r].token, rows[r].stored, kv * HEAD_DIM + d);
      dot += turned(q, d, rows[r].delta) * key;
    }
    const double weight = exp(dot / sqrt(HEAD_DIM));  // |dot| <= 8: no need to shift
    sum += weight;
    for (uint32_t d = 0; d < HEAD_DIM; ++d) {
      const uint32_t at = (KV_HEADS + kv) * HEAD_DIM + d;
      out[d] += weight * row_number(layer, rows[r].token, rows[r].stored, at);
    }
  }
  for (uint32_t d = 0; d < HEAD_DIM; ++d) out[d] /= sum;
  return log(sum);
}

// The last `queries` positions of the rows ask, in every layer.
static void check_attention(const emblema_sequence* sequence, const struct seen_row* rows,
                            uint64_t count, uint64_t queries) {
  enum { QUERIES_MAX = 4 };
  float q[QUERIES_MAX][QUERY_HEADS][HEAD_DIM];
  float out[QUERIES_MAX][QUERY_HEADS][HEAD_DIM];
  float lse[QUERIES_MAX][QUERY_HEADS];
  CHECK(queries <= QUERIES_MAX);
  for (uint32_t layer = 0; layer < LAYERS; ++layer) {
    for (uint64_t i = 0; i < queries; ++i) {
      for (uint32_t n = 0; n < QUERY_HEADS * HEAD_DIM; ++n) {
        q[i][n / HEAD_DIM][n % HEAD_DIM] = (float)row_number(layer + 77, 1, i, n);
      }
    }
    const uint64_t heads = queries * QUERY_HEADS;
    const emblema_attention attention = {.struct_bytes = sizeof attention,
                                         .layer = layer,
                                         .first = count - queries,
                                         .queries = queries,
                                         .q = &q[0][0][0],
                                         .q_floats = heads * HEAD_DIM,
                                         .out = &out[0][0][0],
                                         .out_floats = heads * HEAD_DIM,
                                         .lse = &lse[0][0],
                                         .lse_floats = heads};
    CHECK_OK(emblema_attend(sequence, &attention));
    for (uint64_t i = 0; i < queries; ++i) {
      for (uint32_t head = 0; head < QUERY_HEADS; ++head) {
        double want[HEAD_DIM];
        const uint64_t visible = count - queries + i + 1;
        const double want_lse = attend_plainly(q[i][head], layer, head, rows, visible, want);
        CHECK(fabs((double)lse[i][head] - want_lse) < 1e-5);
        for (uint32_t d = 0; d < HEAD_DIM; ++d) {
          CHECK(fabs((double)out[i][head][d] - want[d]) < 1e-5);
        }
      }
    }
  }
}

static void fill_tokens(uint32_t* tokens, uint64_t count, uint32_t first) {
  for (uint64_t i = 0; i < count; ++i) tokens[i] = first + (uint32_t)i;
}

static void test_models(void) {
  CHECK(emblema_abi_version() == EMBLEMA_ABI_VERSION);
  emblema_model* model = open_small_model();
  emblema_model_info info = {.struct_bytes = sizeof info};
  CHECK_OK(emblema_model_describe(model, &info));
  CHECK(info.layers == LAYERS);
  CHECK(info.growing_bytes_per_token == LAYERS * ROW_FLOATS * sizeof(float));
  CHECK(info.growing_bytes_per_token_denominator == 1);
  CHECK(info.fixed_bytes_per_sequence == 0 && info.state_bytes_per_sequence == 0);
  CHECK(info.max_positions == 4096);

  emblema_layer_info layer = {.struct_bytes = sizeof layer};
  CHECK_OK(emblema_model_layer(model, LAYERS - 1, &layer));
  CHECK(layer.role == EMBLEMA_ROLE_KV && layer.encoding == EMBLEMA_FP32 && layer.streams == 1);
  CHECK(layer.query_heads == QUERY_HEADS && layer.kv_heads == KV_HEADS);
  CHECK(layer.key_dim == HEAD_DIM && layer.value_dim == HEAD_DIM);
  CHECK(layer.row_bytes == ROW_FLOATS * sizeof(float) && layer.window_tokens == 0);
  CHECK(fabs(layer.scale - 1 / sqrt(HEAD_DIM)) < 1e-15 && layer.softcap == 0);
  emblema_model_close(model);

  // DeepSeek-V3's 61 layers of 512 + 64 numbers of 2 bytes: 70,272 bytes, as DeepSeek says.
  const emblema_model_options preset = {.struct_bytes = sizeof preset, .source = "deepseek-v3"};
  CHECK_OK(emblema_model_open(&preset, &model));
  CHECK_OK(emblema_model_describe(model, &info));
  CHECK(info.layers == 61 && info.growing_bytes_per_token == 70272);
  CHECK_OK(emblema_model_layer(model, 0, &layer));
  CHECK(layer.role == EMBLEMA_ROLE_LATENT && layer.encoding == EMBLEMA_BF16);
  CHECK(layer.key_dim == 576 && layer.value_dim == 512 && layer.row_bytes == 1152);
  emblema_model_close(model);
}

static void test_plan(void) {
  emblema_model* model = open_small_model();
  const uint64_t token_bytes = LAYERS * ROW_FLOATS * sizeof(float);
  const uint64_t at[] = {1, BLOCK, BLOCK + 1, 1000};
  uint64_t payload[4] = {0};
  uint64_t allocated[4] = {0};
  const emblema_plan_request request = {.struct_bytes = sizeof request,
                                        .at_count = 4,
                                        .at_tokens = at,
                                        .pool_bytes = 100 * BLOCK * token_bytes + 7,
                                        .context_tokens = 10 * BLOCK};
  emblema_plan_info info = {.struct_bytes = sizeof info};
  CHECK_OK(emblema_plan(model, &request, &info, payload, allocated));
  for (int i = 0; i < 4; ++i) {
    CHECK(payload[i] == at[i] * token_bytes);
    CHECK(allocated[i] == (at[i] + BLOCK - 1) / BLOCK * BLOCK * token_bytes);
  }
  CHECK(info.groups == 1 && info.block_tokens == BLOCK && info.blocks == 100);
  CHECK(info.tokens == 100 * BLOCK && info.sequences == 10);
  CHECK(info.sequence_tokens == 10 * BLOCK && info.used_bytes == 100 * BLOCK * token_bytes);

  // Only bytes, only of one kind.
  const emblema_plan_request bytes = {.struct_bytes = sizeof bytes, .at_count = 1, .at_tokens = at};
  CHECK_OK(emblema_plan(model, &bytes, &info, NULL, allocated));
  CHECK(info.blocks == 0 && allocated[0] == BLOCK * token_bytes);
  emblema_model_close(model);
}

static uint64_t hit_tokens(emblema_engine* engine, emblema_request request) {
  emblema_sequence* sequence = NULL;
  CHECK_OK(emblema_sequence_start(engine, &request, &sequence));
  const uint64_t hit = info_of(sequence).hit_tokens;
  emblema_sequence_release(sequence);
  return hit;
}

// What was stored is found by the same request, and by no other.
static void test_hits(void) {
  emblema_model* model = open_small_model();
  emblema_engine* engine = open_small_engine(model, 40);
  emblema_model_close(model);  // the engine needs it no more
  uint32_t prompt[40];
  fill_tokens(prompt, 40, 100);
  emblema_request request = request_of(prompt, 40, "a");
  emblema_sequence* sequence = NULL;
  CHECK_OK(emblema_sequence_start(engine, &request, &sequence));
  CHECK(info_of(sequence).hit_tokens == 0);
  run_tokens(sequence, prompt, 40);
  check_rows(sequence, 0, prompt, 40, 0);
  emblema_sequence_release(sequence);

  // Two whole blocks of the three begun.
  CHECK_OK(emblema_sequence_start(engine, &request, &sequence));
  CHECK(info_of(sequence).hit_tokens == 2 * BLOCK);
  check_rows(sequence, 0, prompt, 2 * BLOCK, 0);
  emblema_sequence_release(sequence);

  CHECK(hit_tokens(engine, request_of(prompt, 40, "b")) == 0);
  request.tenant = "a\0b";  // a text may hold a zero: this is not "a"
  request.tenant_bytes = 3;
  CHECK(hit_tokens(engine, request) == 0);
  request = request_of(prompt, 40, "a");
  request.salt = "s";
  request.salt_bytes = 1;
  CHECK(hit_tokens(engine, request) == 0);
  request = request_of(prompt, 40, "a");
  const uint8_t adapter[32] = {1};
  request.adapter = adapter;
  CHECK(hit_tokens(engine, request) == 0);
  request = request_of(prompt, 40, "a");
  const emblema_extra_id image = {.offset = BLOCK + 2, .digest = {7}};
  request.extra = &image;
  request.extra_count = 1;
  CHECK(hit_tokens(engine, request) == BLOCK);  // up to where the image enters

  emblema_stats stats = {.struct_bytes = sizeof stats};
  CHECK_OK(emblema_engine_stats(engine, &stats));
  CHECK(stats.capacity_blocks == 40 && stats.idle_blocks == 2 && stats.free_blocks == 38);
  CHECK(stats.prefix_hit_tokens == 3 * BLOCK && stats.physical_bytes == 0 && stats.groups == 1);
  uint64_t freed = 0;
  CHECK_OK(emblema_engine_evict_idle(engine, &freed));
  CHECK(freed == 2);
  CHECK(hit_tokens(engine, request_of(prompt, 40, "a")) == 0);
  emblema_engine_close(engine);
}

// Two sequences from one; each keeps its own end, and the engine object may go first.
static void test_fork(void) {
  emblema_model* model = open_small_model();
  emblema_engine* engine = open_small_engine(model, 40);
  uint32_t past[21];
  uint32_t mine[5];
  uint32_t other[5];
  fill_tokens(past, 21, 1);
  fill_tokens(mine, 5, 500);
  fill_tokens(other, 5, 600);
  emblema_request request = request_of(NULL, 0, "");
  emblema_sequence* parent = NULL;
  emblema_sequence* child = NULL;
  CHECK_OK(emblema_sequence_start(engine, &request, &parent));
  run_tokens(parent, past, 21);
  CHECK_OK(emblema_sequence_fork(parent, &child));
  emblema_engine_close(engine);
  emblema_model_close(model);
  run_tokens(parent, mine, 5);
  run_tokens(child, other, 5);
  check_rows(parent, 0, past, 21, 0);
  check_rows(parent, 21, mine, 5, 21);
  check_rows(child, 0, past, 21, 0);
  check_rows(child, 21, other, 5, 21);
  struct seen_row rows[26];
  for (uint64_t i = 0; i < 26; ++i) {
    rows[i] = (struct seen_row){.token = i < 21 ? past[i] : other[i - 21], .stored = i, .delta = 0};
  }
  check_attention(child, rows, 26, 4);

  // What is reserved may be given back.
  CHECK_OK(emblema_sequence_reserve(child, 50));
  CHECK(info_of(child).reserved_tokens == 50);
  CHECK_OK(emblema_sequence_cancel(child));
  CHECK(info_of(child).reserved_tokens == 0 && info_of(child).tokens == 26);
  emblema_sequence_release(parent);
  check_rows(child, 0, past, 21, 0);
  emblema_sequence_release(child);
}

// A document encoded once and attached behind a prompt: its bytes stay, queries are turned.
static void test_segment(void) {
  enum { PROMPT = 19, DOCUMENT = 37, QUESTION = 20, ALL = PROMPT + DOCUMENT + QUESTION };
  emblema_model* model = open_small_model();
  emblema_engine* engine = open_small_engine(model, 40);
  emblema_model_close(model);
  uint32_t tokens[ALL];
  fill_tokens(tokens, ALL, 1000);
  const uint32_t* document = tokens + PROMPT;
  const uint32_t* question = document + DOCUMENT;
  const emblema_request whole = request_of(document, DOCUMENT, "a");
  emblema_segment* segment = NULL;
  emblema_sequence* builder = NULL;
  CHECK_OK(emblema_segment_begin(engine, &whole, &segment, &builder));
  CHECK(segment == NULL && builder != NULL && info_of(builder).builds_segment == 1);
  run_tokens(builder, document, DOCUMENT);
  CHECK_OK(emblema_segment_seal(builder, &segment));
  emblema_sequence_release(builder);
  uint64_t length = 0;
  CHECK_OK(emblema_segment_tokens(segment, &length));
  CHECK(length == DOCUMENT);
  emblema_segment_release(segment);
  CHECK_OK(emblema_segment_begin(engine, &whole, &segment, &builder));
  CHECK(segment != NULL && builder == NULL);

  // The second time the question's first block is found behind the segment.
  for (uint64_t round = 0; round < 2; ++round) {
    emblema_request prompt = request_of(tokens, PROMPT, "a");
    emblema_sequence* sequence = NULL;
    CHECK_OK(emblema_sequence_start(engine, &prompt, &sequence));
    const uint64_t hit = info_of(sequence).hit_tokens;
    run_tokens(sequence, tokens + hit, PROMPT - hit);
    uint64_t found = 1;
    CHECK_OK(emblema_sequence_attach(sequence, segment, question, QUESTION, &found));
    CHECK(found == round * BLOCK);
    CHECK(info_of(sequence).tokens == PROMPT + DOCUMENT + found);
    run_tokens(sequence, question + found, QUESTION - found);
    check_rows(sequence, 0, tokens, PROMPT, 0);
    check_rows(sequence, PROMPT, document, DOCUMENT, 0);
    check_rows(sequence, PROMPT + DOCUMENT, question, QUESTION, PROMPT + DOCUMENT);
    struct seen_row rows[ALL];
    for (uint64_t i = 0; i < ALL; ++i) {
      const int in_document = i >= PROMPT && i < PROMPT + DOCUMENT;
      rows[i] = (struct seen_row){.token = tokens[i],
                                  .stored = in_document ? i - PROMPT : i,
                                  .delta = in_document ? PROMPT : 0};
    }
    check_attention(sequence, rows, ALL, 3);
    emblema_sequence_release(sequence);
  }
  emblema_stats stats = {.struct_bytes = sizeof stats};
  CHECK_OK(emblema_engine_stats(engine, &stats));
  CHECK(stats.segment_hit_tokens == DOCUMENT && stats.content_collisions == 0);
  emblema_segment_release(segment);
  emblema_engine_close(engine);
}

// Deferred sealing: equal blocks under two salts become one when somebody asks for it.
static void test_deferred(void) {
  emblema_model* model = open_small_model();
  const emblema_engine_options options = {
      .struct_bytes = sizeof options, .seal = EMBLEMA_SEAL_DEFERRED, .pool_bytes = 1 << 18};
  emblema_engine* engine = NULL;
  CHECK_OK(emblema_engine_open(model, &options, &engine));
  uint32_t prompt[BLOCK];
  fill_tokens(prompt, BLOCK, 5);
  emblema_request request = request_of(prompt, BLOCK, "a");
  for (int i = 0; i < 2; ++i) {
    request.salt = i == 0 ? "x" : "y";
    request.salt_bytes = 1;
    emblema_sequence* sequence = NULL;
    CHECK_OK(emblema_sequence_start(engine, &request, &sequence));
    run_tokens(sequence, prompt, BLOCK);
    emblema_sequence_release(sequence);
  }
  uint64_t handled = 0;
  CHECK_OK(emblema_engine_seal_pending(engine, 10, &handled));
  CHECK(handled == 2);
  emblema_stats stats = {.struct_bytes = sizeof stats};
  CHECK_OK(emblema_engine_stats(engine, &stats));
  CHECK(stats.content_shared_blocks == 1);
  emblema_engine_close(engine);
  emblema_model_close(model);
}

int main(void) {
  test_models();
  test_plan();
  test_hits();
  test_fork();
  test_segment();
  test_deferred();
  test_errors();
  if (checks_failed == 0) printf("the C interface: every check holds\n");
  return checks_failed == 0 ? 0 : 1;
}
