// A call that was refused has written nothing: its Status must be looked at.
// expect: ignoring return value
#include "emblema/kernels/attention.h"

bool attend(const emblema::AttentionInputs& inputs, std::span<float> out, std::span<float> lse) {
#ifdef EMBLEMA_MUST_FAIL
  emblema::decode_attention(inputs, out, lse);
  return true;
#else
  return emblema::decode_attention(inputs, out, lse).has_value();
#endif
}
