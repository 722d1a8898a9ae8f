// Telling systemd how the service is doing (sd_notify(3)), without its library.
#pragma once

namespace gateway {

// `READY=1` and the like; nothing happens if no service manager wants to know.
void notify(const char* state);

}  // namespace gateway
