// What the C programs that test emblema.h share: checks, a small model in fp32, rows whose numbers
// are a function of layer, token and position.
#pragma once

#include <stdio.h>
#include <string.h>

#include "emblema/c/emblema.h"

extern int checks_failed;

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      ++checks_failed;                                                \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
    }                                                                 \
  } while (0)

#define CHECK_OK(call)                                                                     \
  do {                                                                                     \
    if ((call) != EMBLEMA_OK) {                                                            \
      ++checks_failed;                                                                     \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, emblema_last_error()); \
    }                                                                                      \
  } while (0)

// The call gives this status, and a message of one line that has `words` in it.
#define CHECK_FAILS(call, status, words)                                                     \
  do {                                                                                       \
    const emblema_status got_ = (call);                                                      \
    const char* said_ = emblema_last_error();                                                \
    if (got_ != (status) || strstr(said_, (words)) == NULL || strchr(said_, '\n') != NULL) { \
      ++checks_failed;                                                                       \
      fprintf(stderr, "%s:%d: %s gave %s: \"%s\"\n", __FILE__, __LINE__, #call,              \
              emblema_status_name(got_), said_);                                             \
    }                                                                                        \
  } while (0)

enum { LAYERS = 2, QUERY_HEADS = 4, KV_HEADS = 2, HEAD_DIM = 8, BLOCK = 16 };
enum { ROW_FLOATS = 2 * KV_HEADS * HEAD_DIM, TOKENS_MAX = 256 };

emblema_model* open_small_model(void);
emblema_engine* open_small_engine(const emblema_model* model, uint64_t blocks);

// Number `at` of the row of this token, written at this position: keys, then values.
double row_number(uint32_t layer, uint32_t token, uint64_t position, uint32_t at);

emblema_request request_of(const uint32_t* tokens, uint64_t count, const char* tenant);
emblema_sequence_info info_of(const emblema_sequence* sequence);

// Reserves, writes every layer's rows, commits.
void run_tokens(emblema_sequence* sequence, const uint32_t* tokens, uint64_t count);

// The rows at positions first, first + 1, ... are those of these tokens, stored from `stored` on.
void check_rows(const emblema_sequence* sequence, uint64_t first, const uint32_t* tokens,
                uint64_t count, uint64_t stored);

void test_errors(void);  // c_error_test.c
