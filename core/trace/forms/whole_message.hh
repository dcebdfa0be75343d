#pragma once
#include "core/base/error.hh"
#include "core/dns/message.hh"
#include "core/trace/forms/text/message_columns.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

namespace reprise::trace {

/// Throws Error where the message is of a size that no reader takes: no file is written that cannot
/// be read back.
inline void check_message_size(const Query& query) {
    const size_t size = query.message.size();
    if (!query.is_close() && (size < kDnsHeaderSize || size > kMaxMessage)) {
        throw Error(fmt::format("query {} has {} bytes, but a DNS message has 12 to 65535; keep "
                                "rules from making it so",
                                query.sequence, size));
    }
}

} // namespace reprise::trace
