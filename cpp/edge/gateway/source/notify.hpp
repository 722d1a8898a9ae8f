// Telling systemd how the service is doing (sd_notify(3)), without its library.
#pragma once

namespace gateway {

// Sends `READY=1` and the like. Does nothing without a service manager.
void notify(const char* state);

}  // namespace gateway
