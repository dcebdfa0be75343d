#include "mutator/stream_encoder.hh"

#include "core/query.hh"
#include "core/trace/stream_form.hh"
#include "mutator/query_encoder.hh"
#include "mutator/whole_message.hh"

#include <memory>
#include <string>

namespace reprise::mutator {
namespace {

class StreamEncoder final : public QueryEncoder {
public:
    void begin(std::string& out) override { trace::StreamBuilder::begin(out); }

    void encode(const Query& query, std::string& out) override {
        check_message_size(query);
        builder_.add(query, out);
    }

    void flush(std::string& out) override { builder_.flush(out); }

    void finish(std::string& out) override { builder_.finish(out); }

private:
    trace::StreamBuilder builder_;
};

} // namespace

std::unique_ptr<QueryEncoder> make_stream_encoder() { return std::make_unique<StreamEncoder>(); }

} // namespace reprise::mutator
