#include "core/trace/forms/text/text_form.hh"

#include "core/trace/forms/message_source.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/trace/forms/text/columns.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <memory>
#include <ranges>
#include <string>

namespace reprise::trace {
namespace {

class TextEncoder final : public QueryEncoder {
public:
    void begin(std::string& out) override { append_text_header(out); }

    void encode(const Query& query, std::string& out) override {
        check_message_size(query);
        append_text_row(out, query);
    }

    void finish(std::string& /*out*/) override {}
};

} // namespace

void append_text_header(std::string& out) {
    fmt::format_to(std::back_inserter(out), "{} {}\n{}\n", kTextMagic, kTextVersion,
                   fmt::join(kColumns | std::views::transform(&ColumnKind::name), "\t"));
}

void append_text_row(std::string& out, const Query& query) {
    Row row{.time = query.time,
            .source = query.source.address,
            .destination = query.destination.address,
            .port = query.source.port,
            .dport = query.destination.port,
            .transport = query.transport,
            .connection = query.connection,
            .rtt = query.rtt_class,
            .idle = query.idle_class,
            .message = query.message};
    if (!query.is_close()) {
        read_message(query.message, row);
    }
    append_cells(out, row);
}

std::unique_ptr<QueryEncoder> make_text_encoder() { return std::make_unique<TextEncoder>(); }

} // namespace reprise::trace
