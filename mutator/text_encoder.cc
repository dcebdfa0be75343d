#include "mutator/text_encoder.hh"

#include "core/query.hh"
#include "core/trace/text_form.hh"
#include "mutator/query_encoder.hh"
#include "mutator/whole_message.hh"

#include <memory>
#include <string>

namespace reprise::mutator {
namespace {

class TextEncoder final : public QueryEncoder {
public:
    void begin(std::string& out) override { trace::append_text_header(out); }

    void encode(const Query& query, std::string& out) override {
        check_message_size(query);
        trace::append_text_row(out, query);
    }

    void finish(std::string& /*out*/) override {}
};

} // namespace

std::unique_ptr<QueryEncoder> make_text_encoder() { return std::make_unique<TextEncoder>(); }

} // namespace reprise::mutator
