#include "core/trace/forms/query_encoder.hh"
#include "core/trace/testing/reader.hh"
#include "core/wire/query.hh"
#include "mutator/synth/synth.hh"
#include "mutator/synth/synth_options.hh"
#include "mutator/testing/support.hh"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace reprise::mutator {
namespace {

using Row = std::tuple<Nanoseconds, std::string, std::string, Transport, std::uint64_t, bool,
                       std::vector<std::uint8_t>>;

void make(SynthSink& sink, const SynthOptions& options) {
    Synthesizer synthesizer(check_options(options), {"com", "net"}, sink);
    while (synthesizer.step()) {
    }
    synthesizer.finish();
}

std::vector<Row> rows(const std::string& path) {
    std::vector<Row> out;
    trace::test::Reader reader(path, {.closes = true});
    for (Query query; reader.next(query);) {
        out.emplace_back(query.time, query.source.text(), query.destination.text(), query.transport,
                         query.connection, query.is_close(),
                         std::vector<std::uint8_t>(query.message.begin(), query.message.end()));
    }
    EXPECT_EQ(reader.trouble(), "");
    return out;
}

// The capture of a trace, read, and its other forms hold the same queries and closes.
TEST(SynthSink, FormsHoldTheSame) {
    const TemporaryFolder folder;
    SynthOptions options;
    options.queries = 5000;
    options.tcp_share = 0.3;
    options.tcp_queries = 3;
    options.ipv6_share = 0.2;
    SynthSink packets(folder.file("a.pcap"), trace::OutputForm::kPcap);
    make(packets, options);
    const auto expected = rows(folder.file("a.pcap"));
    for (const auto& [form, name] : {std::pair(trace::OutputForm::kText, "a.tsv"),
                                     std::pair(trace::OutputForm::kStream, "a.rps")}) {
        SynthSink queries(folder.file(name), form);
        make(queries, options);
        EXPECT_EQ(queries.records(), expected.size());
        EXPECT_EQ(rows(folder.file(name)), expected) << name;
    }
}

} // namespace
} // namespace reprise::mutator
