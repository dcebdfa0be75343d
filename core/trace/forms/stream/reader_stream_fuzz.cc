// The stream form: the bytes behind a good header as they are, or (first byte even) as the payload
// of a frame whose size and checksum are right.
#include "core/trace/forms/query_encoder.hh"
#include "core/trace/testing/fuzz_forms.hh"

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace {

std::string framed(const std::string& payload) {
    const auto size = static_cast<std::uint32_t>(payload.size());
    const std::uint64_t check = XXH64(payload.data(), payload.size(), 0);
    std::string out(sizeof size + sizeof check, '\0');
    std::memcpy(out.data(), &size, sizeof size);
    std::memcpy(out.data() + sizeof size, &check, sizeof check);
    return out + payload;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    if (size == 0) {
        return 0;
    }
    const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
    std::string content;
    reprise::trace::make_stream_encoder()->begin(content);
    content += data[0] % 2 == 0 ? framed(rest) : rest;
    reprise::trace::test::fuzz_form(content);
    return 0;
}
