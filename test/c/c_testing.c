#include "c_testing.h"

static const char* const small_config =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_size\": 32,"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
    " \"head_dim\": 8, \"max_position_embeddings\": 4096, \"rope_theta\": 10000.0}";

emblema_model* open_small_model(void) {
  const emblema_model_options options = {.struct_bytes = sizeof options,
                                         .json = small_config,
                                         .json_bytes = strlen(small_config),
                                         .kv_dtype = "fp32"};
  emblema_model* model = NULL;
  CHECK_OK(emblema_model_open(&options, &model));
  return model;
}

emblema_engine* open_small_engine(const emblema_model* model, uint64_t blocks) {
  const uint64_t block_bytes = (uint64_t)LAYERS * BLOCK * ROW_FLOATS * sizeof(float);
  const emblema_engine_options options = {.struct_bytes = sizeof options,
                                          .pool_bytes = blocks * block_bytes,
                                          .step_tokens = TOKENS_MAX};
  emblema_engine* engine = NULL;
  CHECK_OK(emblema_engine_open(model, &options, &engine));
  return engine;
}

// Spread over [-1, 1) by the finaliser of SplitMix64.
double row_number(uint32_t layer, uint32_t token, uint64_t position, uint32_t at) {
  uint64_t x = ((uint64_t)token << 32) ^ (position << 12) ^ ((uint64_t)layer << 8) ^ at;
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return (double)(x >> 43) / 1048576.0 - 1.0;  // 21 bits: exact in a float, too
}

emblema_request request_of(const uint32_t* tokens, uint64_t count, const char* tenant) {
  const emblema_request request = {.struct_bytes = sizeof request,
                                   .tokens = tokens,
                                   .token_count = count,
                                   .tenant = tenant,
                                   .tenant_bytes = strlen(tenant)};
  return request;
}

emblema_sequence_info info_of(const emblema_sequence* sequence) {
  emblema_sequence_info info = {.struct_bytes = sizeof info};
  CHECK_OK(emblema_sequence_describe(sequence, &info));
  return info;
}

static void write_layer(emblema_sequence* sequence, uint32_t layer, const uint32_t* tokens,
                        uint64_t first, uint64_t count) {
  emblema_chunk chunks[TOKENS_MAX / BLOCK + 2];
  uint64_t chunk_count = 0;
  CHECK_OK(emblema_sequence_rows(sequence, layer, EMBLEMA_ROLE_KV, first, count, chunks,
                                 sizeof chunks / sizeof chunks[0], &chunk_count));
  uint64_t written = 0;
  for (uint64_t c = 0; c < chunk_count; ++c) {
    CHECK(chunks[c].first_token == first + written);
    CHECK(chunks[c].row_bytes == ROW_FLOATS * sizeof(float));
    for (uint64_t r = 0; r < chunks[c].rows; ++r, ++written) {
      float* row = (float*)((char*)chunks[c].data + r * chunks[c].row_bytes);
      for (uint32_t at = 0; at < ROW_FLOATS; ++at) {
        row[at] = (float)row_number(layer, tokens[written], first + written, at);
      }
    }
  }
  CHECK(written == count);
}

void run_tokens(emblema_sequence* sequence, const uint32_t* tokens, uint64_t count) {
  const uint64_t first = info_of(sequence).tokens;
  CHECK_OK(emblema_sequence_reserve(sequence, count));
  for (uint32_t layer = 0; layer < LAYERS; ++layer) {
    write_layer(sequence, layer, tokens, first, count);
  }
  CHECK_OK(emblema_sequence_commit(sequence, tokens, count));
}

void check_rows(const emblema_sequence* sequence, uint64_t first, const uint32_t* tokens,
                uint64_t count, uint64_t stored) {
  for (uint32_t layer = 0; layer < LAYERS; ++layer) {
    for (uint64_t i = 0; i < count; ++i) {
      const void* data = NULL;
      uint64_t bytes = 0;
      CHECK_OK(emblema_sequence_row(sequence, layer, EMBLEMA_ROLE_KV, first + i, &data, &bytes));
      CHECK(bytes == ROW_FLOATS * sizeof(float));
      if (data == NULL) return;
      for (uint32_t at = 0; at < ROW_FLOATS; ++at) {
        float number = 0;
        memcpy(&number, (const char*)data + at * sizeof number, sizeof number);
        CHECK((double)number == row_number(layer, tokens[i], stored + i, at));
      }
    }
  }
}
