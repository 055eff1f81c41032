// Emblema's C interface: a model, its capacity, an engine, sequences, segments and attention, for
// callers in C (C11) and for bindings of other languages. C++ callers include the rooms' headers.
//
//   emblema_model* model;      emblema_engine* engine;      emblema_sequence* sequence;
//   emblema_model_options of = {.struct_bytes = sizeof of, .source = "deepseek-v2-lite"};
//   emblema_model_open(&of, &model);
//   emblema_engine_options how = {.struct_bytes = sizeof how, .pool_bytes = (uint64_t)1 << 30};
//   emblema_engine_open(model, &how, &engine);
//   emblema_request prompt = {.struct_bytes = sizeof prompt, .tokens = ids, .token_count = n};
//   emblema_sequence_start(engine, &prompt, &sequence);
//   emblema_sequence_reserve, _rows, emblema_attend, emblema_sequence_commit, ... _release
//
// Errors: every call that can fail returns an emblema_status and changes nothing where it fails;
//   emblema_last_error() has the message. A null pointer is EMBLEMA_INVALID, but for those that are
//   said to be optional. No exception leaves a call. Only where the system refuses memory inside a
//   call (EMBLEMA_IO) is a sequence left half changed: release it.
// Ownership: an `emblema_x** out` receives an object that the caller gives back with its _close or
//   _release, in any order: sequences and segments keep alive what they need of their engine, and
//   an engine needs no model. On failure *out is NULL. What a caller passes in is only read during
//   the call.
// Threads: any thread may use a model or an engine, several at once. One thread at a time uses a
//   sequence, different ones different threads. Nothing uses an object while it is given back.
// Versions: a struct begins with its size as the caller knows it. A shorter one comes from an older
//   caller: fields beyond it have their defaults (of results: are not written). A longer one comes
//   from a newer caller: what lies beyond must be 0 (of results: is set to 0). In every struct 0 is
//   the default of each field. Elements of arrays (emblema_extra_id, emblema_chunk) have no size in
//   front: their layout is for ever. Numbers of codes are for ever, too.
//
// Linking: the library is C++ inside, so the program is linked by a C++ compiler. A CMake project
// has both languages, project(... LANGUAGES C CXX), and find_package(emblema) does the rest.
#pragma once

// NOLINTBEGIN(modernize-*): this is C.
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EMBLEMA_ABI_VERSION 1u  // grows where an old caller could no longer be served

// ---- status ------------------------------------------------------------------------------------

typedef enum emblema_status {
  EMBLEMA_OK = 0,
  EMBLEMA_NOT_FOUND = 1,      // it is not there; nothing was changed
  EMBLEMA_CORRUPT = 2,        // stored bytes are not what was written
  EMBLEMA_OUT_OF_BLOCKS = 3,  // no room in the pool: release something; nothing was taken
  EMBLEMA_IO = 4,             // the operating system refused (a file, memory)
  EMBLEMA_INVALID = 5,        // an argument is wrong: correct it; nothing was changed
  EMBLEMA_UNSUPPORTED = 6     // legal, but this build cannot; the message says what is missing
} emblema_status;

uint32_t emblema_abi_version(void);  // EMBLEMA_ABI_VERSION of the library

// "OutOfBlocks"; never NULL. Static memory.
const char* emblema_status_name(emblema_status status);

// What the last call of this thread said when it failed, in one line: what, which field, the value,
// what is allowed. "" after a call that did not fail. Never NULL; valid until this thread's next
// call. Messages past 1,023 bytes are cut.
const char* emblema_last_error(void);

typedef struct emblema_model emblema_model;
typedef struct emblema_engine emblema_engine;
typedef struct emblema_sequence emblema_sequence;
typedef struct emblema_segment emblema_segment;

// ---- models ------------------------------------------------------------------------------------

typedef struct emblema_model_options {
  uint32_t struct_bytes;
  uint32_t layers;            // 0: all; else the first so many
  const char* source;         // a preset's name, a config.json, or a folder that holds one
  const char* json;           // or the text of a config.json; exactly one of the two
  uint64_t json_bytes;        // without a final 0
  const char* kv_dtype;       // "bf16" (also NULL), "fp16", "fp32", "fp8_ds_mla" ...
  const char* indexer_dtype;  // NULL: what goes with kv_dtype
  uint64_t block_tokens;      // 0: derived; else a multiple of the derived number
} emblema_model_options;

// NOT_FOUND: no such preset or file. IO: it cannot be read. INVALID: names the field, its value and
// what is allowed. UNSUPPORTED: an attention, or a dtype for it, that this build does not know.
emblema_status emblema_model_open(const emblema_model_options* options, emblema_model** out);
void emblema_model_close(emblema_model* model);  // NULL: does nothing

// What one model remembers, exactly; of one sequence, payload.
typedef struct emblema_model_info {
  uint32_t struct_bytes;
  uint32_t layers;
  uint64_t growing_bytes_per_token;              // numerator of a fraction in lowest terms
  uint64_t growing_bytes_per_token_denominator;  // above 1 where strides make it a fraction
  uint64_t fixed_bytes_per_sequence;             // the cap that windows reach
  uint64_t state_bytes_per_sequence;             // recurrent and compressor state
  uint64_t max_positions;                        // 0: the config does not say
  uint8_t fingerprint[32];  // equal where the bytes of two caches are interchangeable
} emblema_model_info;

emblema_status emblema_model_describe(const emblema_model* model, emblema_model_info* info);

enum { EMBLEMA_ROLE_KV = 1, EMBLEMA_ROLE_LATENT = 2, EMBLEMA_ROLE_INDEXER = 3 };
enum { EMBLEMA_FP32 = 1, EMBLEMA_FP16 = 2, EMBLEMA_BF16 = 3 };

// One layer as its attention reads it. A row is [kv_heads][key_dim] keys and [kv_heads][value_dim]
// values, or with role LATENT one of key_dim numbers whose first value_dim are also the value.
typedef struct emblema_layer_info {
  uint32_t struct_bytes;
  uint32_t role;      // EMBLEMA_ROLE_... of its first stream; 0: no rows of its own
  uint32_t encoding;  // of that stream's numbers: EMBLEMA_FP32 ...; others: as in encoding.h
  uint32_t streams;   // 2 where index keys lie beside the rows
  uint32_t query_heads;
  uint32_t kv_heads;
  uint32_t key_dim;
  uint32_t value_dim;
  uint64_t row_bytes;      // of the first stream
  uint64_t window_tokens;  // 0: sees everything before it
  double scale;            // of the softmax
  double softcap;          // 0: none
} emblema_layer_info;

// INVALID: a layer past the model's.
emblema_status emblema_model_layer(const emblema_model* model, uint32_t layer,
                                   emblema_layer_info* info);

// ---- capacity ----------------------------------------------------------------------------------

typedef struct emblema_plan_request {
  uint32_t struct_bytes;
  uint32_t at_count;
  const uint64_t* at_tokens;  // [at_count] lengths to give bytes for, 1 to 2^40
  uint64_t pool_bytes;        // 0: nothing is asked about a pool
  uint64_t context_tokens;    // length that `sequences` is for; 0: the longest that fits alone
  uint64_t step_tokens;       // most tokens of one sequence in a step; 0: 2,048
} emblema_plan_request;

typedef struct emblema_plan_info {
  uint32_t struct_bytes;
  uint32_t groups;           // of blocks: one for growing streams, one for each length of window
  uint64_t block_tokens;     // of the first group
  uint64_t blocks;           // of the first group in the pool
  uint64_t tokens;           // that fit as one long sequence
  uint64_t sequences;        // of `sequence_tokens` that fit at once
  uint64_t sequence_tokens;  // the length that the pool was divided for
  uint64_t used_bytes;       // of the pool
} emblema_plan_info;

// Arithmetic, no allocation: what an engine over this pool would have (the engine's own division).
//   payload_bytes, allocated_bytes  [at_count] of one sequence: token-exact; as the pool gives it.
//                                   Each may be NULL where nobody wants it.
// INVALID: a length out of range. OUT_OF_BLOCKS: a pool below one block per group; names the bytes.
emblema_status emblema_plan(const emblema_model* model, const emblema_plan_request* request,
                            emblema_plan_info* info, uint64_t* payload_bytes,
                            uint64_t* allocated_bytes);

// ---- engines -----------------------------------------------------------------------------------

enum { EMBLEMA_SEAL_INLINE = 0, EMBLEMA_SEAL_DEFERRED = 1 };

typedef struct emblema_engine_options {
  uint32_t struct_bytes;
  uint32_t seal;                // DEFERRED: commit returns sooner, call emblema_engine_seal_pending
  uint64_t pool_bytes;          // memory that attention reads
  const uint8_t* weights_id;    // 32 bytes, a digest of the weights; NULL: none given
  uint64_t sequence_tokens;     // length that the pool is divided for; 0: as emblema_plan says
  uint64_t max_sequences;       // 0: 16
  uint64_t step_tokens;         // largest reserve; 0: 2,048
  uint32_t no_content_sharing;  // 1: equal blocks stay apart
  uint32_t share_content_across_tenants;  // 1: saves memory; hits stay apart
  uint32_t metadata_only;                 // 1: accounts for blocks, holds no bytes
  uint32_t reserved;                      // 0
} emblema_engine_options;

// INVALID: an option out of range. OUT_OF_BLOCKS: the pool is too small, names the bytes needed.
// IO: memory was refused. UNSUPPORTED: a model that can be planned, but not run.
emblema_status emblema_engine_open(const emblema_model* model,
                                   const emblema_engine_options* options, emblema_engine** out);
void emblema_engine_close(emblema_engine* engine);  // NULL: does nothing

typedef struct emblema_stats {
  uint32_t struct_bytes;
  uint32_t groups;
  // Since open; they never go back.
  uint64_t prefix_hit_tokens;
  uint64_t segment_hit_tokens;
  uint64_t content_shared_blocks;
  uint64_t content_collisions;  // equal digest, other bytes: a security signal
  uint64_t duplicate_unequal;
  uint64_t evicted_blocks;
  uint64_t copied_blocks;  // copy on write
  // Now, over all groups: free + open + referenced + idle = capacity.
  uint64_t capacity_blocks;
  uint64_t free_blocks;
  uint64_t open_blocks;
  uint64_t referenced_blocks;
  uint64_t idle_blocks;
  uint64_t logical_bytes;   // as their holders see them
  uint64_t physical_bytes;  // of blocks in use
} emblema_stats;

emblema_status emblema_engine_stats(const emblema_engine* engine, emblema_stats* stats);

// With deferred sealing: shares the content of up to so many blocks. *handled may be NULL.
emblema_status emblema_engine_seal_pending(emblema_engine* engine, uint64_t budget_blocks,
                                           uint64_t* handled);

// Drops everything that no sequence and no segment holds. *freed_blocks may be NULL.
emblema_status emblema_engine_evict_idle(emblema_engine* engine, uint64_t* freed_blocks);

// ---- sequences ---------------------------------------------------------------------------------

// What is not a token (an image, audio): a digest of it at the token offset where it enters.
typedef struct emblema_extra_id {
  uint64_t offset;
  uint8_t digest[32];
} emblema_extra_id;

// Whose request it is and what it says. Everything here decides what may be found. Texts are bytes
// and may hold zeros.
typedef struct emblema_request {
  uint32_t struct_bytes;
  uint32_t reserved;  // 0
  const uint32_t* tokens;
  uint64_t token_count;
  const char* tenant;
  uint64_t tenant_bytes;
  const char* salt;
  uint64_t salt_bytes;
  const uint8_t* adapter;         // 32 bytes, a digest of its content; NULL: the base model
  const emblema_extra_id* extra;  // offsets ascending, within the tokens
  uint64_t extra_count;
} emblema_request;

// A sequence that already holds the longest stored prefix of the tokens, at most all but one.
emblema_status emblema_sequence_start(emblema_engine* engine, const emblema_request* request,
                                      emblema_sequence** out);
void emblema_sequence_release(emblema_sequence* sequence);  // NULL: does nothing

typedef struct emblema_sequence_info {
  uint32_t struct_bytes;
  uint32_t builds_segment;   // 1: it is a segment's builder
  uint64_t tokens;           // committed, attached segments included
  uint64_t reserved_tokens;  // and not yet committed
  uint64_t hit_tokens;       // found at the start: need not be computed
} emblema_sequence_info;

emblema_status emblema_sequence_describe(const emblema_sequence* sequence,
                                         emblema_sequence_info* info);

// Room for so many more tokens, all or nothing. INVALID: more than step_tokens at once.
emblema_status emblema_sequence_reserve(emblema_sequence* sequence, uint64_t tokens);
// Gives back what is reserved and not committed.
emblema_status emblema_sequence_cancel(emblema_sequence* sequence);

// Rows of consecutive tokens, row_bytes apart.
typedef struct emblema_chunk {
  void* data;
  uint64_t rows;
  uint64_t row_bytes;
  uint64_t first_token;  // position of the first row
} emblema_chunk;

// Where to write the rows of `count` reserved tokens from position `first`: one chunk for each
// block touched, at most 2 + count / block tokens. Valid until the sequence changes.
//   chunks  [capacity]; *chunk_count receives how many there are, also where they do not fit
// INVALID: positions that are not reserved, no such stream, or a capacity too small.
emblema_status emblema_sequence_rows(const emblema_sequence* sequence, uint32_t layer,
                                     uint32_t role, uint64_t first, uint64_t count,
                                     emblema_chunk* chunks, uint64_t capacity,
                                     uint64_t* chunk_count);

// The bytes of one committed row, to be read. Valid until the sequence changes.
// NOT_FOUND: behind a window. INVALID: not committed, or no such stream.
emblema_status emblema_sequence_row(const emblema_sequence* sequence, uint32_t layer, uint32_t role,
                                    uint64_t position, const void** data, uint64_t* bytes);

// The word that all layers of the next `count` reserved tokens are written and accepted: from now
// on they can be found. INVALID: more than reserved, or not what was given to start.
emblema_status emblema_sequence_commit(emblema_sequence* sequence, const uint32_t* tokens,
                                       uint64_t count);

// A second sequence with the same past; each copies the last block on its next write.
// INVALID: tokens are reserved.
emblema_status emblema_sequence_fork(emblema_sequence* sequence, emblema_sequence** out);

// ---- segments ----------------------------------------------------------------------------------

// The stored segment of exactly these tokens, or a sequence that builds it: run that from its
// hit_tokens to the end of the span, then seal it. Exactly one of the two is not NULL.
// INVALID: no tokens.
emblema_status emblema_segment_begin(emblema_engine* engine, const emblema_request* request,
                                     emblema_segment** found, emblema_sequence** builder);

// Ends the building. The builder stays the caller's to release; sealed again it gives another hold
// on the same segment. INVALID: no builder, tokens missing or still reserved.
emblema_status emblema_segment_seal(emblema_sequence* builder, emblema_segment** out);
void emblema_segment_release(emblema_segment* segment);  // NULL: does nothing

emblema_status emblema_segment_tokens(const emblema_segment* segment, uint64_t* tokens);

// Puts a segment behind the sequence's tokens, without a copy. `following` [count], which may be
// none, are the tokens to be run next: *hit_tokens of them were stored behind this very segment.
// INVALID: tokens are reserved, a prompt is not run to its end, or another tenant's segment.
// UNSUPPORTED: rotary frequencies that depend on the length.
emblema_status emblema_sequence_attach(emblema_sequence* sequence, const emblema_segment* segment,
                                       const uint32_t* following, uint64_t count,
                                       uint64_t* hit_tokens);

// ---- attention ---------------------------------------------------------------------------------

// Queries of consecutive tokens of one sequence, each over every row at its position and before it.
// Sizes are in floats; they are checked.
typedef struct emblema_attention {
  uint32_t struct_bytes;
  uint32_t layer;
  uint64_t first;  // position of the first query; committed or reserved
  uint64_t queries;
  const float* q;  // [queries][query_heads][key_dim], rotated at their positions
  uint64_t q_floats;
  const float* sinks;  // [query_heads] logits; NULL: none
  uint64_t sinks_floats;
  float* out;  // [queries][query_heads][value_dim]
  uint64_t out_floats;
  float* lse;  // [queries][query_heads] natural logarithms of the sums of exponentials
  uint64_t lse_floats;
} emblema_attention;

// Straight from the blocks, over committed and reserved rows, with the widest instructions
// that the machine has. Takes no lock, and no memory but for scratch that grows to the largest
// call. INVALID: sizes that do not fit, no such layer, a position behind what is reserved.
emblema_status emblema_attend(const emblema_sequence* sequence, const emblema_attention* attention);

#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-*)
