// The view of a DNS message: every accessor on any bytes; and names as text.
#include "core/dns/message.hh"
#include "core/dns/name.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

/// A good name is the same when it was written as text.
void read_name(std::string_view text) {
    reprise::Name name;
    reprise::Name again;
    if (!name.parse(text).empty()) {
        return;
    }
    const auto written = reprise::name_text(name.bytes());
    if (!again.parse(written).empty() || !std::ranges::equal(name.bytes(), again.bytes())) {
        std::abort();
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    const reprise::Bytes message(data, size);
    const auto question = reprise::parse_question(message);
    if (question) {
        const bool same = reprise::same_question(*question, *question);
        if (!same || reprise::name_text(question->name).empty() || question->name.size() > 255) {
            std::abort();
        }
    }
    const auto edns = reprise::parse_edns(message);
    if (edns && edns->options.size() > size) {
        std::abort();
    }
    using enum reprise::MessageEnd;
    if (reprise::message_end(message, size) != kBroken &&
        reprise::message_end(message, size + 1) == kBroken) {
        std::abort();
    }
    static_cast<void>(reprise::full_rcode(message));
    static_cast<void>(reprise::name_text(message));
    read_name({reinterpret_cast<const char*>(data), size});
    return 0;
}
