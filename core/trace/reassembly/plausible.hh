#pragma once
// Finding the beginning of a DNS message in the middle of a TCP stream.

#include "core/base/bytes.hh"

#include <cstdint>

namespace reprise::trace {

enum class Plausible : std::uint8_t { kNo, kYes, kNeedMore };

/// Whether `stream` begins with a length prefix (RFC 1035 section 4.2.2) and a DNS message:
/// possible flags and counts, and a well-formed first question or record. Strict enough that random
/// bytes pass about once in 10^9; real messages that are odd in these fields are only missed where
/// a stream's beginning was not captured.
Plausible begins_message(Bytes stream);

} // namespace reprise::trace
