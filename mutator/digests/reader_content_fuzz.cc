// What a reply says, of any bytes: the same whatever its id and what follows it.
#include "core/dns/name.hh"
#include "mutator/digests/digests.hh"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    std::vector<std::uint8_t> message(data, data + size);
    reprise::mutator::Contents contents(
        {.origin = reprise::parse_name("com").value_or(reprise::Name()), .labels = 2});
    const auto content = contents.of(message, message);
    if (size > 1) {
        message[1] ^= 1U;
    }
    if (contents.of(message, message) != content) {
        std::abort();
    }
    return 0;
}
