#pragma once
#include "core/base/bytes.hh"

#include <cstdint>

namespace reprise::querier {

/// Hash of a message's first question, its name without regard to ASCII case (RFC 4343). 0 where
/// the message has no question or a malformed one; never 0 otherwise.
std::uint64_t question_hash(Bytes message);

/// The message's id; 0 where the message is too short to have one.
std::uint16_t message_id(Bytes message);

} // namespace reprise::querier
