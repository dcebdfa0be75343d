// Rows of the text form below a good header, or (first byte even) a whole file of any kind that
// begins as one.
#include "core/trace/forms/query_encoder.hh"
#include "core/trace/testing/fuzz_forms.hh"

#include <cstddef>
#include <cstdint>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    using namespace reprise::trace; // NOLINT(google-build-using-namespace)
    if (size == 0) {
        return 0;
    }
    const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
    std::string head;
    if (data[0] % 2 == 0) {
        head = kTextMagic;
    } else {
        append_text_header(head);
    }
    test::fuzz_form(head + rest);
    return 0;
}
