// `corank-gateway`: the service.
#include "service.hpp"

#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdio>
#include <string>

int main(int count, char** arguments) {
  std::string file;
  bool check = false;
  CLI::App program(
      "Receives the spectra of sensors, judges with a support vector machine for each whether its "
      "bearing is damaged, and reports one status per sensor.");
  program.add_option("--config,config", file, "the configuration, a file in TOML")->required();
  program.add_flag("--check", check,
                   "only say whether the configuration, its key and its weights are right");
  program.footer(
      "Entries of the configuration, with what holds without them:\n"
      "  listen = \"0.0.0.0:9477\"    where datagrams come in\n"
      "  receive_buffer = 16777216  bytes that the kernel keeps meanwhile\n"
      "  key_file                   64 hexadecimal digits: openssl rand -hex 32\n"
      "  weights                    what training/train.py wrote\n"
      "  window = 10                measurements of a sensor that are judged together\n"
      "  alarm_after = 1            so many damaged ones make the sensor's status\n"
      "  silent_after_ms = 5000     a sensor without datagrams for so long is silent\n"
      "  session_ahead_ms = 600000  a sensor's session may be this far ahead of this machine's "
      "clock\n"
      "  model = \"coroutine\"        or \"sequential\"\n"
      "  output = \"-\"               JSON lines go to this file; \"\": nowhere\n"
      "  metrics = \"\"               HOST:PORT for Prometheus\n"
      "  [mqtt] host, port, topic, user, password_file, ca_file\n"
      "  [gpio] chip, line          high while windows are judged\n"
      "SIGHUP, or a change of the configuration, the key or the weights, reloads all three, or "
      "none if one is wrong. SIGTERM ends the service.");
  CLI11_PARSE(program, count, arguments);

  // Blocks the signals before any thread exists, so that no thread receives them.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  // A file at its size limit is an error of the write, like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    gateway::configuration with = gateway::load(file);
    if (check) {
      std::printf("%s: %zu sensors with %zu bins each\n", file.c_str(), with.table->size(),
                  with.table->features());
      return 0;
    }
    gateway::service(file, std::move(with)).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "corank-gateway: %s\n", error.what());
    return 1;
  }
}
