// Prints figures that need code from the installed library, not only its headers.
#include <iostream>

#include "emblema/contract/bytes.h"
#include "emblema/contract/ids.h"
#include "emblema/model/model_config.h"

int main() {
  const auto bytes = emblema::parse_bytes("1.5TiB");
  if (!bytes) {
    std::cerr << bytes.error().describe() << '\n';
    return 1;
  }
  std::cout << *bytes << '\n' << emblema::sha256({}).hex() << '\n';

  const auto model = emblema::load_model_config("deepseek-v3");
  if (!model) {
    std::cerr << model.error().describe() << '\n';
    return 1;
  }
  std::cout << model->num_hidden_layers << " layers, latent rank " << model->kv_lora_rank << '\n';
  return 0;
}
