#include "core/trace/forms/stream/stream_encoder.hh"

#include "core/trace/forms/query_encoder.hh"
#include "core/trace/forms/stream/stream_form.hh"
#include "core/trace/forms/whole_message.hh"
#include "core/wire/query.hh"

#include <memory>
#include <string>

namespace reprise::trace {
namespace {

class StreamEncoder final : public QueryEncoder {
public:
    void begin(std::string& out) override { StreamBuilder::begin(out); }

    void encode(const Query& query, std::string& out) override {
        check_message_size(query);
        builder_.add(query, out);
    }

    void flush(std::string& out) override { builder_.flush(out); }

    void finish(std::string& out) override { builder_.finish(out); }

private:
    StreamBuilder builder_;
};

} // namespace

std::unique_ptr<QueryEncoder> make_stream_encoder() { return std::make_unique<StreamEncoder>(); }

} // namespace reprise::trace
