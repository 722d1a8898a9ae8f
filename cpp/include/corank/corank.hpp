// Everything. A program that wants less to compile includes the files that it needs.
#pragma once

#include "channel.hpp"
#include "event.hpp"
#include "future.hpp"
#include "generator.hpp"
#include "keys.hpp"
#include "mutex.hpp"
#include "semaphore.hpp"
#include "split_phase_event.hpp"
#include "task.hpp"
#include "time.hpp"
