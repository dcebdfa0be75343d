#include "core/base/error.hh"
#include "core/trace/forms/pcap/pcap_encoder.hh"
#include "core/trace/forms/query_encoder.hh"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::trace {
namespace {

constexpr std::array<std::pair<std::string_view, OutputForm>, 4> kEndings{{
    {".pcap", OutputForm::kPcap},
    {".tsv", OutputForm::kText},
    {".txt", OutputForm::kText},
    {".rps", OutputForm::kStream},
}};

} // namespace

std::unique_ptr<QueryEncoder> make_encoder(OutputForm form) {
    switch (form) {
    case OutputForm::kPcap:
        return make_pcap_encoder();
    case OutputForm::kText:
        return make_text_encoder();
    case OutputForm::kStream:
        break;
    }
    return make_stream_encoder();
}

OutputForm form_named(std::string_view word) {
    return word == "pcap"   ? OutputForm::kPcap
           : word == "text" ? OutputForm::kText
                            : OutputForm::kStream;
}

OutputForm form_of(const std::string& path) {
    for (const auto& [ending, form] : kEndings) {
        if (path.ends_with(ending)) {
            return form;
        }
    }
    throw UsageError(fmt::format("the name {} does not say which form to write; end it in .pcap, "
                                 ".tsv, .txt or .rps, or give --to pcap, text or stream",
                                 path));
}

} // namespace reprise::trace
