#include "core/trace/forms/text/text_encoder.hh"

#include "core/trace/forms/query_encoder.hh"
#include "core/trace/forms/text/text_form.hh"
#include "core/trace/forms/whole_message.hh"
#include "core/wire/query.hh"

#include <memory>
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

std::unique_ptr<QueryEncoder> make_text_encoder() { return std::make_unique<TextEncoder>(); }

} // namespace reprise::trace
