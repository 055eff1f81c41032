// Each way to call emblema.h wrongly, once: a status, a message of one line, and nothing changed.
#include "c_testing.h"

static void test_null(const emblema_model* model, emblema_engine* engine,
                      emblema_sequence* sequence) {
  emblema_model* no_model = NULL;
  emblema_engine* no_engine = NULL;
  emblema_sequence* no_sequence = NULL;
  emblema_segment* no_segment = NULL;
  const emblema_model_options model_options = {.struct_bytes = sizeof model_options};
  const emblema_engine_options engine_options = {.struct_bytes = sizeof engine_options};
  const emblema_request request = request_of(NULL, 0, "");
  emblema_model_info model_info = {.struct_bytes = sizeof model_info};
  emblema_layer_info layer_info = {.struct_bytes = sizeof layer_info};
  emblema_plan_info plan_info = {.struct_bytes = sizeof plan_info};
  emblema_stats stats = {.struct_bytes = sizeof stats};
  emblema_sequence_info info = {.struct_bytes = sizeof info};
  uint64_t count = 9;
  const void* data = NULL;
  const char* null = "is null";
#define CHECK_NULL(call) CHECK_FAILS(call, EMBLEMA_INVALID, null)
  CHECK_NULL(emblema_model_open(NULL, &no_model));
  CHECK_NULL(emblema_model_open(&model_options, NULL));
  CHECK_NULL(emblema_model_describe(NULL, &model_info));
  CHECK_NULL(emblema_model_describe(model, NULL));
  CHECK_NULL(emblema_model_layer(NULL, 0, &layer_info));
  CHECK_NULL(emblema_model_layer(model, 0, NULL));
  CHECK_NULL(emblema_plan(NULL, NULL, &plan_info, NULL, NULL));
  CHECK_NULL(emblema_plan(model, NULL, &plan_info, NULL, NULL));
  const emblema_plan_request plan = {.struct_bytes = sizeof plan};
  CHECK_NULL(emblema_plan(model, &plan, NULL, NULL, NULL));
  const emblema_plan_request no_lengths = {.struct_bytes = sizeof plan, .at_count = 1};
  CHECK_NULL(emblema_plan(model, &no_lengths, &plan_info, NULL, NULL));
  CHECK_NULL(emblema_engine_open(NULL, &engine_options, &no_engine));
  CHECK_NULL(emblema_engine_open(model, NULL, &no_engine));
  CHECK_NULL(emblema_engine_open(model, &engine_options, NULL));
  CHECK_NULL(emblema_engine_stats(NULL, &stats));
  CHECK_NULL(emblema_engine_stats(engine, NULL));
  CHECK_NULL(emblema_engine_seal_pending(NULL, 1, &count));
  CHECK_NULL(emblema_engine_evict_idle(NULL, &count));
  CHECK_NULL(emblema_sequence_start(NULL, &request, &no_sequence));
  CHECK_NULL(emblema_sequence_start(engine, NULL, &no_sequence));
  CHECK_NULL(emblema_sequence_start(engine, &request, NULL));
  CHECK_NULL(emblema_sequence_describe(NULL, &info));
  CHECK_NULL(emblema_sequence_describe(sequence, NULL));
  CHECK_NULL(emblema_sequence_reserve(NULL, 1));
  CHECK_NULL(emblema_sequence_cancel(NULL));
  CHECK_NULL(emblema_sequence_rows(NULL, 0, EMBLEMA_ROLE_KV, 0, 0, NULL, 0, &count));
  CHECK_NULL(emblema_sequence_rows(sequence, 0, EMBLEMA_ROLE_KV, 0, 0, NULL, 0, NULL));
  CHECK_NULL(emblema_sequence_row(NULL, 0, EMBLEMA_ROLE_KV, 0, &data, &count));
  CHECK_NULL(emblema_sequence_row(sequence, 0, EMBLEMA_ROLE_KV, 0, NULL, &count));
  CHECK_NULL(emblema_sequence_row(sequence, 0, EMBLEMA_ROLE_KV, 0, &data, NULL));
  CHECK_NULL(emblema_sequence_commit(NULL, NULL, 0));
  CHECK_NULL(emblema_sequence_commit(sequence, NULL, 1));
  CHECK_NULL(emblema_sequence_fork(NULL, &no_sequence));
  CHECK_NULL(emblema_sequence_fork(sequence, NULL));
  CHECK_NULL(emblema_segment_begin(NULL, &request, &no_segment, &no_sequence));
  CHECK_NULL(emblema_segment_begin(engine, NULL, &no_segment, &no_sequence));
  CHECK_NULL(emblema_segment_begin(engine, &request, NULL, &no_sequence));
  CHECK_NULL(emblema_segment_begin(engine, &request, &no_segment, NULL));
  CHECK_NULL(emblema_segment_seal(NULL, &no_segment));
  CHECK_NULL(emblema_segment_seal(sequence, NULL));
  CHECK_NULL(emblema_segment_tokens(NULL, &count));
  CHECK_NULL(emblema_sequence_attach(NULL, NULL, NULL, 0, &count));
  CHECK_NULL(emblema_sequence_attach(sequence, NULL, NULL, 0, &count));
  CHECK_NULL(emblema_sequence_attach(sequence, NULL, NULL, 0, NULL));
  CHECK_NULL(emblema_attend(NULL, NULL));
  CHECK_NULL(emblema_attend(sequence, NULL));
#undef CHECK_NULL
  emblema_model_close(NULL);
  emblema_engine_close(NULL);
  emblema_sequence_release(NULL);
  emblema_segment_release(NULL);
}

// An older caller's struct is shorter, a newer one's longer; other sizes are mistakes.
static void test_versions(const emblema_model* model) {
  emblema_model* opened = NULL;
  emblema_model_options options = {.source = "deepseek-v3", .kv_dtype = "nonsense"};
  CHECK_FAILS(emblema_model_open(&options, &opened), EMBLEMA_INVALID, "struct_bytes");
  options.struct_bytes = sizeof options - 1;
  CHECK_FAILS(emblema_model_open(&options, &opened), EMBLEMA_INVALID, "struct_bytes");
  options.struct_bytes = 1u << 20;
  CHECK_FAILS(emblema_model_open(&options, &opened), EMBLEMA_INVALID, "struct_bytes");
  options.struct_bytes = (uint32_t)offsetof(emblema_model_options, json);  // no kv_dtype yet
  CHECK_OK(emblema_model_open(&options, &opened));
  emblema_model_close(opened);

  struct {
    emblema_model_options known;
    uint64_t unknown;
  } newer = {.known = {.struct_bytes = sizeof newer, .source = "deepseek-v3"}, .unknown = 0};
  CHECK_OK(emblema_model_open(&newer.known, &opened));
  emblema_model_close(opened);
  newer.unknown = 1;
  CHECK_FAILS(emblema_model_open(&newer.known, &opened), EMBLEMA_INVALID, "does not know");
  CHECK(opened == NULL);

  struct {
    emblema_model_info known;
    uint64_t unknown;
  } wanted = {.known = {.struct_bytes = sizeof wanted}, .unknown = 99};
  CHECK_OK(emblema_model_describe(model, &wanted.known));
  CHECK(wanted.known.layers == LAYERS && wanted.unknown == 0);
  CHECK(wanted.known.struct_bytes == sizeof wanted);
  emblema_model_info shorter = {.struct_bytes = 16, .fixed_bytes_per_sequence = 99};
  CHECK_OK(emblema_model_describe(model, &shorter));
  CHECK(shorter.growing_bytes_per_token > 0 && shorter.fixed_bytes_per_sequence == 99);
  shorter.struct_bytes = 0;
  CHECK_FAILS(emblema_model_describe(model, &shorter), EMBLEMA_INVALID, "struct_bytes");
}

static void test_models_refused(const emblema_model* model) {
  emblema_model* opened = NULL;
  emblema_model_options options = {.struct_bytes = sizeof options, .source = "deepseek-v33"};
  CHECK_FAILS(emblema_model_open(&options, &opened), EMBLEMA_NOT_FOUND, "deepseek-v3");
  options.json = "{}";
  options.json_bytes = 2;
  CHECK_FAILS(emblema_model_open(&options, &opened), EMBLEMA_INVALID, "both given");
  options.source = NULL;
  CHECK_FAILS(emblema_model_open(&options, &opened), EMBLEMA_INVALID, "num_hidden_layers");
  options.json = NULL;
  CHECK_FAILS(emblema_model_open(&options, &opened), EMBLEMA_INVALID, "both null");
  options.source = "deepseek-v3";
  options.kv_dtype = "bf17";
  CHECK_FAILS(emblema_model_open(&options, &opened), EMBLEMA_INVALID, "bf17");
  options.kv_dtype = NULL;
  options.indexer_dtype = "bf17";
  CHECK_FAILS(emblema_model_open(&options, &opened), EMBLEMA_INVALID, "bf17");
  options.indexer_dtype = NULL;
  options.block_tokens = 65;
  CHECK_FAILS(emblema_model_open(&options, &opened), EMBLEMA_INVALID, "65");
  emblema_layer_info layer = {.struct_bytes = sizeof layer};
  CHECK_FAILS(emblema_model_layer(model, LAYERS, &layer), EMBLEMA_INVALID, "layer is 2");
  const uint64_t zero = 0;
  emblema_plan_request request = {
      .struct_bytes = sizeof request, .at_count = 1, .at_tokens = &zero};
  emblema_plan_info info = {.struct_bytes = sizeof info};
  CHECK_FAILS(emblema_plan(model, &request, &info, NULL, NULL), EMBLEMA_INVALID, "at is 0");
  request.at_count = 0;
  request.pool_bytes = 1;
  CHECK_FAILS(emblema_plan(model, &request, &info, NULL, NULL), EMBLEMA_OUT_OF_BLOCKS, "bytes");
}

static void test_engines_refused(const emblema_model* model) {
  emblema_engine* engine = NULL;
  emblema_engine_options options = {.struct_bytes = sizeof options, .pool_bytes = 1};
  CHECK_FAILS(emblema_engine_open(model, &options, &engine), EMBLEMA_OUT_OF_BLOCKS, "bytes");
  options.pool_bytes = 1 << 20;
  options.seal = 2;
  CHECK_FAILS(emblema_engine_open(model, &options, &engine), EMBLEMA_INVALID, "seal is 2");
  options.seal = 0;
  options.no_content_sharing = 2;
  CHECK_FAILS(emblema_engine_open(model, &options, &engine), EMBLEMA_INVALID, "no_content_sharing");
  options.no_content_sharing = 1;
  options.share_content_across_tenants = 3;
  CHECK_FAILS(emblema_engine_open(model, &options, &engine), EMBLEMA_INVALID,
              "across_tenants is 3");
  options.share_content_across_tenants = 0;
  options.metadata_only = 7;
  CHECK_FAILS(emblema_engine_open(model, &options, &engine), EMBLEMA_INVALID, "metadata_only is 7");
  options.metadata_only = 1;
  options.reserved = 1;
  CHECK_FAILS(emblema_engine_open(model, &options, &engine), EMBLEMA_INVALID, "reserved");
  options.reserved = 0;
  options.step_tokens = UINT64_MAX;
  CHECK_FAILS(emblema_engine_open(model, &options, &engine), EMBLEMA_INVALID, "step_tokens");
  options.step_tokens = 0;

  // Memory without bytes has no rows.
  CHECK_OK(emblema_engine_open(model, &options, &engine));
  const emblema_request nothing = request_of(NULL, 0, "");
  emblema_sequence* sequence = NULL;
  CHECK_OK(emblema_sequence_start(engine, &nothing, &sequence));
  CHECK_OK(emblema_sequence_reserve(sequence, 3));
  uint64_t count = 0;
  CHECK_FAILS(emblema_sequence_rows(sequence, 0, EMBLEMA_ROLE_KV, 0, 3, NULL, 0, &count),
              EMBLEMA_UNSUPPORTED, "metadata-only");
  emblema_sequence_release(sequence);
  emblema_engine_close(engine);

  emblema_model* encoder = NULL;
  const emblema_model_options vision = {.struct_bytes = sizeof vision,
                                        .source = "llama-3.2-11b-vision"};
  CHECK_OK(emblema_model_open(&vision, &encoder));
  const emblema_engine_options plain = {.struct_bytes = sizeof plain, .pool_bytes = 1u << 30};
  CHECK_FAILS(emblema_engine_open(encoder, &plain, &engine), EMBLEMA_UNSUPPORTED, "outside blocks");
  CHECK(engine == NULL);
  emblema_model_close(encoder);

  emblema_model* recurrent = NULL;
  const emblema_model_options hybrid = {.struct_bytes = sizeof hybrid,
                                        .source = "qwen3-next-80b-a3b"};
  CHECK_OK(emblema_model_open(&hybrid, &recurrent));
  CHECK_FAILS(emblema_engine_open(recurrent, &plain, &engine), EMBLEMA_UNSUPPORTED,
              "state outside blocks");
  CHECK(engine == NULL);
  emblema_model_close(recurrent);
}

static void test_requests_refused(emblema_engine* engine) {
  emblema_sequence* sequence = NULL;
  emblema_segment* segment = NULL;
  const uint32_t tokens[2] = {1, 2};
  emblema_request request = request_of(NULL, 1, "");
  CHECK_FAILS(emblema_sequence_start(engine, &request, &sequence), EMBLEMA_INVALID,
              "tokens is null");
  request = request_of(tokens, UINT64_MAX, "");
  CHECK_FAILS(emblema_sequence_start(engine, &request, &sequence), EMBLEMA_INVALID,
              "count of tokens");
  request = request_of(tokens, 2, "");
  request.reserved = 1;
  CHECK_FAILS(emblema_sequence_start(engine, &request, &sequence), EMBLEMA_INVALID, "reserved");
  request.reserved = 0;
  request.tenant = NULL;
  request.tenant_bytes = 1;
  CHECK_FAILS(emblema_sequence_start(engine, &request, &sequence), EMBLEMA_INVALID,
              "tenant is null");
  request.tenant_bytes = 0;
  request.salt_bytes = 1;
  CHECK_FAILS(emblema_sequence_start(engine, &request, &sequence), EMBLEMA_INVALID, "salt is null");
  request.salt = "x";
  request.salt_bytes = UINT64_MAX;
  CHECK_FAILS(emblema_sequence_start(engine, &request, &sequence), EMBLEMA_INVALID,
              "bytes of salt");
  request.salt_bytes = 1;
  request.extra_count = 1;
  CHECK_FAILS(emblema_sequence_start(engine, &request, &sequence), EMBLEMA_INVALID,
              "extra is null");
  const emblema_extra_id outside = {.offset = 2, .digest = {1}};
  request.extra = &outside;
  CHECK_FAILS(emblema_sequence_start(engine, &request, &sequence), EMBLEMA_INVALID, "offset 2");
  CHECK(sequence == NULL);
  const emblema_request nothing = request_of(NULL, 0, "");
  CHECK_FAILS(emblema_segment_begin(engine, &nothing, &segment, &sequence), EMBLEMA_INVALID,
              "segment of 0 tokens");
}

static void test_sequences_refused(emblema_engine* engine, emblema_sequence* sequence) {
  const uint32_t tokens[3] = {1, 2, 3};
  emblema_chunk chunks[2];
  uint64_t count = 0;
  const void* data = NULL;
  emblema_sequence* child = NULL;
  emblema_segment* segment = NULL;
  CHECK_FAILS(emblema_sequence_reserve(sequence, TOKENS_MAX + 1), EMBLEMA_INVALID, "step_tokens");
  CHECK_FAILS(emblema_sequence_commit(sequence, tokens, 1), EMBLEMA_INVALID, "commit of 1");
  CHECK_FAILS(emblema_segment_seal(sequence, &segment), EMBLEMA_INVALID, "builder is a sequence");
  run_tokens(sequence, tokens, 1);
  CHECK_OK(emblema_sequence_reserve(sequence, BLOCK));
  CHECK_FAILS(emblema_sequence_fork(sequence, &child), EMBLEMA_INVALID, "reserved");
  CHECK_FAILS(emblema_sequence_rows(sequence, 0, 99, 1, 1, chunks, 2, &count), EMBLEMA_INVALID,
              "role is 99");
  CHECK_FAILS(emblema_sequence_rows(sequence, 0, 257, 1, 1, chunks, 2, &count), EMBLEMA_INVALID,
              "role is 257");
  CHECK_FAILS(emblema_sequence_rows(sequence, 0, EMBLEMA_ROLE_LATENT, 1, 1, chunks, 2, &count),
              EMBLEMA_INVALID, "latent");
  CHECK_FAILS(emblema_sequence_rows(sequence, 9, EMBLEMA_ROLE_KV, 1, 1, chunks, 2, &count),
              EMBLEMA_INVALID, "layer 9");
  CHECK_FAILS(emblema_sequence_rows(sequence, 0, EMBLEMA_ROLE_KV, 0, 1, chunks, 2, &count),
              EMBLEMA_INVALID, "position 0");
  CHECK_FAILS(emblema_sequence_rows(sequence, 0, EMBLEMA_ROLE_KV, 1, UINT64_MAX, chunks, 2, &count),
              EMBLEMA_INVALID, "position 1");
  CHECK_FAILS(emblema_sequence_rows(sequence, 0, EMBLEMA_ROLE_KV, 1, BLOCK, chunks, 1, &count),
              EMBLEMA_INVALID, "capacity is 1");
  CHECK(count == 2);
  CHECK_FAILS(emblema_sequence_rows(sequence, 0, EMBLEMA_ROLE_KV, 1, BLOCK, NULL, 2, &count),
              EMBLEMA_INVALID, "chunks is null");
  CHECK_FAILS(emblema_sequence_row(sequence, 0, EMBLEMA_ROLE_KV, 1, &data, &count), EMBLEMA_INVALID,
              "position 1");
  CHECK_FAILS(emblema_sequence_row(sequence, 0, EMBLEMA_ROLE_LATENT, 0, &data, &count),
              EMBLEMA_INVALID, "latent");
  CHECK_OK(emblema_sequence_cancel(sequence));

  const emblema_request other = request_of(tokens, 3, "other");
  emblema_sequence* builder = NULL;
  CHECK_OK(emblema_segment_begin(engine, &other, &segment, &builder));
  CHECK_FAILS(emblema_segment_seal(builder, &segment), EMBLEMA_INVALID, "0 committed");
  CHECK_FAILS(emblema_sequence_fork(builder, &child), EMBLEMA_INVALID, "builder");
  run_tokens(builder, tokens, 3);
  CHECK_OK(emblema_segment_seal(builder, &segment));
  CHECK_FAILS(emblema_sequence_attach(sequence, segment, NULL, 0, &count), EMBLEMA_INVALID,
              "tenant");
  CHECK_FAILS(emblema_sequence_attach(sequence, segment, NULL, 1, &count), EMBLEMA_INVALID,
              "following is null");
  emblema_sequence_release(builder);
  emblema_segment_release(segment);

  emblema_status status = EMBLEMA_OK;  // until the pool of 8 blocks is full
  while (status == EMBLEMA_OK) status = emblema_sequence_reserve(sequence, BLOCK);
  CHECK(status == EMBLEMA_OUT_OF_BLOCKS && strstr(emblema_last_error(), "block") != NULL);
  CHECK_OK(emblema_sequence_cancel(sequence));
  CHECK(strcmp(emblema_last_error(), "") == 0);
}

static void test_attention_refused(const emblema_sequence* sequence) {
  float q[QUERY_HEADS * HEAD_DIM] = {0};
  float out[QUERY_HEADS * HEAD_DIM];
  float lse[QUERY_HEADS];
  float sinks[QUERY_HEADS] = {0};
  const emblema_attention right = {.struct_bytes = sizeof right,
                                   .queries = 1,
                                   .q = q,
                                   .q_floats = QUERY_HEADS * HEAD_DIM,
                                   .sinks = sinks,
                                   .sinks_floats = QUERY_HEADS,
                                   .out = out,
                                   .out_floats = QUERY_HEADS * HEAD_DIM,
                                   .lse = lse,
                                   .lse_floats = QUERY_HEADS};
  CHECK_OK(emblema_attend(sequence, &right));
#define CHECK_WRONG(field, value, words)                                    \
  do {                                                                      \
    emblema_attention wrong_ = right;                                       \
    wrong_.field = (value);                                                 \
    CHECK_FAILS(emblema_attend(sequence, &wrong_), EMBLEMA_INVALID, words); \
  } while (0)
  CHECK_WRONG(struct_bytes, 3, "struct_bytes");
  CHECK_WRONG(layer, LAYERS, "layer 2");
  CHECK_WRONG(first, 1, "position 1");
  CHECK_WRONG(queries, UINT64_MAX, "queries");
  CHECK_WRONG(q, NULL, "q is null");
  CHECK_WRONG(q_floats, 1, "q_floats is 1");
  CHECK_WRONG(sinks, NULL, "sinks is null");
  CHECK_WRONG(sinks_floats, 1, "sinks is 1");
  CHECK_WRONG(out, NULL, "out is null");
  CHECK_WRONG(out_floats, 1, "out is 1");
  CHECK_WRONG(lse, NULL, "lse is null");
  CHECK_WRONG(lse_floats, 1, "lse is 1");
#undef CHECK_WRONG
}

// A row that its window left behind.
static void test_released_row(void) {
  const char* json =
      "{\"architectures\": [\"MistralForCausalLM\"], \"model_type\": \"mistral\","
      " \"hidden_size\": 32, \"num_hidden_layers\": 2, \"num_attention_heads\": 4,"
      " \"num_key_value_heads\": 2, \"head_dim\": 8, \"max_position_embeddings\": 4096,"
      " \"sliding_window\": 20, \"rope_theta\": 10000.0}";
  const emblema_model_options options = {
      .struct_bytes = sizeof options, .json = json, .json_bytes = strlen(json), .kv_dtype = "fp32"};
  emblema_model* model = NULL;
  CHECK_OK(emblema_model_open(&options, &model));
  emblema_engine* engine = open_small_engine(model, 20);
  const emblema_request nothing = request_of(NULL, 0, "");
  emblema_sequence* sequence = NULL;
  CHECK_OK(emblema_sequence_start(engine, &nothing, &sequence));
  uint32_t tokens[60];
  for (uint32_t i = 0; i < 60; ++i) tokens[i] = i;
  run_tokens(sequence, tokens, 60);
  const void* data = tokens;
  uint64_t bytes = 1;
  CHECK_FAILS(emblema_sequence_row(sequence, 0, EMBLEMA_ROLE_KV, 3, &data, &bytes),
              EMBLEMA_NOT_FOUND, "window");
  CHECK(data == NULL && bytes == 0);
  check_rows(sequence, 60 - 20 + 1, tokens + 60 - 20 + 1, 20 - 1, 60 - 20 + 1);
  emblema_sequence_release(sequence);
  emblema_engine_close(engine);
  emblema_model_close(model);
}

void test_errors(void) {
  CHECK(strcmp(emblema_status_name(EMBLEMA_OUT_OF_BLOCKS), "OutOfBlocks") == 0);
  CHECK(strcmp(emblema_status_name((emblema_status)7), "unknown status") == 0);
  emblema_model* model = open_small_model();
  emblema_engine* engine = open_small_engine(model, 8);
  const emblema_request nothing = request_of(NULL, 0, "");
  emblema_sequence* sequence = NULL;
  CHECK_OK(emblema_sequence_start(engine, &nothing, &sequence));
  test_null(model, engine, sequence);
  test_versions(model);
  test_models_refused(model);
  test_engines_refused(model);
  test_requests_refused(engine);
  test_sequences_refused(engine, sequence);
  test_attention_refused(sequence);
  test_released_row();

  // Nothing of all this is held by anybody.
  emblema_sequence_release(sequence);
  CHECK_OK(emblema_engine_evict_idle(engine, NULL));
  emblema_stats stats = {.struct_bytes = sizeof stats};
  CHECK_OK(emblema_engine_stats(engine, &stats));
  CHECK(stats.free_blocks == 8 && stats.capacity_blocks == 8);
  emblema_engine_close(engine);
  emblema_model_close(model);
}
