// Runs the fuzz target on each file that is named, for compilers without libFuzzer.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int count, char** arguments) {
  int files = 0;
  for (int at = 1; at < count; ++at) {
    if (arguments[at][0] == '-' || !std::filesystem::is_directory(arguments[at])) continue;
    for (const auto& entry : std::filesystem::directory_iterator(arguments[at])) {
      std::ifstream in(entry.path(), std::ios::binary);
      const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
      ++files;
    }
  }
  std::printf("replayed %d files\n", files);
  return files == 0;
}
