// Notifies systemd of the service's state (sd_notify(3)), without its library.
#pragma once

namespace gateway {

// Sends a state such as `READY=1`. Does nothing without a service manager.
void notify(const char* state);

}  // namespace gateway
