// The view of a DNS message: every accessor on any bytes.
#include "core/bytes.hh"
#include "core/dns_message.hh"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

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
    if (reprise::is_whole(message, size) && !reprise::is_whole(message, size + 1)) {
        std::abort();
    }
    static_cast<void>(reprise::full_rcode(message));
    static_cast<void>(reprise::name_text(message));
    return 0;
}
