// Prints figures that need code from the installed library, not only its headers.
#include <iostream>

#include "emblema/contract/bytes.h"
#include "emblema/contract/ids.h"

int main() {
  const auto bytes = emblema::parse_bytes("1.5TiB");
  if (!bytes) {
    std::cerr << bytes.error().describe() << '\n';
    return 1;
  }
  std::cout << *bytes << '\n' << emblema::sha256({}).hex() << '\n';
  return 0;
}
