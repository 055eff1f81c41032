// Functions between BEGIN and END may use the named instructions; nothing before or after. Includes
// of the standard library come before: what is defined inside must not be shared with other files.
#pragma once

#if defined(__clang__)
#define EMBLEMA_PRAGMA(text) _Pragma(#text)
#define EMBLEMA_ISA_BEGIN(target_names) \
  EMBLEMA_PRAGMA(clang attribute push(__attribute__((target(target_names))), apply_to = function))
#define EMBLEMA_ISA_END _Pragma("clang attribute pop")
#else
#define EMBLEMA_PRAGMA(text) _Pragma(#text)
#define EMBLEMA_ISA_BEGIN(target_names) \
  _Pragma("GCC push_options") EMBLEMA_PRAGMA(GCC target(target_names))
#define EMBLEMA_ISA_END _Pragma("GCC pop_options")
#endif

#define EMBLEMA_AVX2_TARGET "avx2,fma,f16c"
#define EMBLEMA_AVX512_TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"
#define EMBLEMA_AMX_TARGET EMBLEMA_AVX512_TARGET ",avx512bf16,amx-tile,amx-bf16"
