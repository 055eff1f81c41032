// Runs a fuzz target without libFuzzer: every file given (folders are walked), then a fixed number
// of seeded mutations of them. Deterministic, so that a failure in CI repeats on any machine.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;

std::vector<Input> read_corpus(int count, char** paths) {
  std::vector<std::string> files;
  for (int i = 0; i < count; ++i) {
    if (!std::filesystem::is_directory(paths[i])) {
      files.emplace_back(paths[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(paths[i])) {
      if (entry.is_regular_file()) files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<Input> corpus;
  for (const std::string& file : files) {
    std::ifstream stream(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  if (corpus.empty()) corpus.push_back({});
  return corpus;
}

Input mutated(const std::vector<Input>& corpus, std::mt19937_64& random) {
  Input input = corpus[random() % corpus.size()];
  const std::uint64_t edits = 1 + random() % 8;
  for (std::uint64_t edit = 0; edit < edits; ++edit) {
    const std::size_t at = input.empty() ? 0 : random() % input.size();
    const auto place = input.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random() % 5) {
      case 0:
        input.insert(place, static_cast<std::uint8_t>(random()));
        break;
      case 1:
        if (!input.empty()) input.erase(place);
        break;
      case 2:
        if (!input.empty()) input[at] ^= static_cast<std::uint8_t>(1u << (random() % 8));
        break;
      case 3:
        input.resize(at);
        break;
      default: {  // a piece of another input
        const Input& other = corpus[random() % corpus.size()];
        if (other.empty()) break;
        const std::size_t from = random() % other.size();
        const std::size_t length = std::min<std::size_t>(random() % 64, other.size() - from);
        const auto first = other.begin() + static_cast<std::ptrdiff_t>(from);
        input.insert(place, first, first + static_cast<std::ptrdiff_t>(length));
      }
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kMutations = 3000;
  const std::vector<Input> corpus = read_corpus(argc - 1, argv + 1);
  for (const Input& input : corpus) LLVMFuzzerTestOneInput(input.data(), input.size());
  std::mt19937_64 random(20'260'101);
  for (int i = 0; i < kMutations; ++i) {
    const Input input = mutated(corpus, random);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%zu inputs and %d mutations: no failure\n", corpus.size(), kMutations);
  return 0;
}
