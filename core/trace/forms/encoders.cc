#include "core/trace/forms/pcap/pcap_encoder.hh"
#include "core/trace/forms/query_encoder.hh"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
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

std::optional<OutputForm> form_of(std::string_view path) {
    const auto* const found = std::ranges::find_if(
        kEndings, [path](const auto& ending) { return path.ends_with(ending.first); });
    return found != kEndings.end() ? std::optional(found->second) : std::nullopt;
}

} // namespace reprise::trace
