// Encoders of the text and the stream form: what they write is read back the same.
#include "core/trace/forms/query_encoder.hh"
#include "core/trace/testing/forms.hh"
#include "core/trace/testing/packets.hh"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace reprise::trace {
namespace {

using trace::test::as_stream;
using trace::test::as_text;
using trace::test::Buffer;
using trace::test::OwnQuery;
using trace::test::queries;
using trace::test::read_content;
using trace::test::usual;

/// All of `in`, with a batch's end behind every `batch` queries.
std::string encode(QueryEncoder& encoder, const std::vector<OwnQuery>& in, size_t batch) {
    std::string out;
    encoder.begin(out);
    for (size_t i = 0; i < in.size(); ++i) {
        encoder.encode(in[i].view(), out);
        if (i % batch == batch - 1) {
            encoder.flush(out);
        }
    }
    encoder.finish(out);
    return out;
}

TEST(FormsEncoder, WritesWhatCoreReads) {
    const auto in = queries(1'000);
    EXPECT_EQ(encode(*make_text_encoder(), in, 100), as_text(in));
    EXPECT_EQ(encode(*make_encoder(OutputForm::kStream), in, 10'000), as_stream(in));
    EXPECT_TRUE(read_content(encode(*make_encoder(OutputForm::kStream), in, 100)).queries == in);
}

/// Nothing waits for the next batch.
TEST(FormsEncoder, FlushLeavesNothingBehind) {
    const auto encoder = make_encoder(OutputForm::kStream);
    std::string out;
    encoder->begin(out);
    encoder->encode(usual(Buffer(12)).view(), out);
    encoder->flush(out);
    const size_t flushed = out.size();
    encoder->finish(out);
    EXPECT_EQ(out.size(), flushed + 12);
}

} // namespace
} // namespace reprise::trace
