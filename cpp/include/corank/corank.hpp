// Includes the whole library. To compile less, include single headers instead.
#pragma once

#include "channel.hpp"
#include "event.hpp"
#include "future.hpp"
#include "generator.hpp"
#include "keys.hpp"
#include "mutex.hpp"
#include "semaphore.hpp"
#include "several.hpp"
#include "split_phase_event.hpp"
#include "task.hpp"
#include "time.hpp"
