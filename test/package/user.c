/* Uses the installed library through its C interface: what a C program prints must be what the
   C++ one does. */
#include <stdio.h>

#include "emblema/c/emblema.h"

int main(void) {
  const emblema_model_options options = {.struct_bytes = sizeof options, .source = "deepseek-v3"};
  emblema_model* model = NULL;
  emblema_model_info info = {.struct_bytes = sizeof info};
  if (emblema_model_open(&options, &model) != EMBLEMA_OK ||
      emblema_model_describe(model, &info) != EMBLEMA_OK) {
    fprintf(stderr, "%s\n", emblema_last_error());
    return 1;
  }
  printf("%u layers, %llu bytes per token\n", (unsigned)info.layers,
         (unsigned long long)info.growing_bytes_per_token);
  emblema_model_close(model);
  return 0;
}
