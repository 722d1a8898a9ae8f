// `corank-sensor`: any number of simulated sensors in one process, each on a bearing of its own.
#include "sensors.hpp"
#include "wire.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <stdexcept>

int main(int count, char** arguments) {
  gateway::sensor_options chosen;
  CLI::App program(
      "Simulates sensors that measure the vibration of bearings and send spectra to "
      "corank-gateway.");
  program.add_option("--to", chosen.to, "where the gateway listens, HOST:PORT")
      ->capture_default_str();
  program.add_option("--key", chosen.key_file,
                     "file with the gateway's key, of which the sensors' keys are derived");
  program.add_option("--first", chosen.first, "number of the first sensor")->capture_default_str();
  program.add_option("--sensors", chosen.sensors, "how many sensors")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  program.add_option("--features", chosen.features, "bins of a spectrum")
      ->capture_default_str()
      ->check(CLI::Range(size_t{1}, gateway::most_features));
  program.add_option("--count", chosen.count, "spectra of each sensor; 0: until it is stopped")
      ->capture_default_str();
  program
      .add_option(
          "--rate", chosen.rate,
          "spectra of each sensor a second; 0: as many as it can measure, one after the other")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e6));
  program.add_option("--condition", chosen.condition, "of the bearings: sound, outer, inner")
      ->capture_default_str();
  program.add_option("--fault", chosen.faults,
                     "KIND=EVERY: every so many datagrams are lost, late, duplicated, truncated, "
                     "oversized or forged");
  program.add_option("--seed", chosen.seed, "what happens by chance")->capture_default_str();
  program.add_flag("--dataset", chosen.dataset,
                   "instead of sending, print spectra as lines SENSOR,CONDITION,BIN,…; --count "
                   "sound ones and as many damaged ones of each sensor");
  CLI11_PARSE(program, count, arguments);
  try {
    if (chosen.dataset)
      gateway::print_dataset(chosen);
    else
      gateway::send(chosen);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "corank-sensor: %s\n", error.what());
    return 1;
  }
}
