#include "core/testing/shared_data.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/trace/testing/reader.hh"
#include "core/wire/query.hh"
#include "mutator/info/trace_info.hh"
#include "mutator/synth/synth.hh"
#include "mutator/synth/synth_options.hh"
#include "mutator/testing/support.hh"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace reprise::mutator {
namespace {

TraceFigures figures_of(const std::string& path) {
    trace::test::Reader reader(path);
    TraceInfo info;
    for (Query query; reader.next(query);) {
        info.add(query);
    }
    info.finish();
    return info.figures();
}

double top_share(const TraceFigures& figures, size_t count) {
    double sum = 0;
    for (const SourceCount& source : figures.top_sources(count)) {
        sum += static_cast<double>(source.second);
    }
    return sum / static_cast<double>(figures.all.queries);
}

// As many queries of the profile "root" as the real minute has, and the minute itself.
TEST(SynthData, RootIsLikeTheRealMinute) {
    const std::string real_path = shared_file("root/nsd-live.raw.pcap.xz");
    if (!std::filesystem::exists(real_path)) {
        GTEST_SKIP() << "no shared data: " << real_path;
    }
    const TraceFigures real = figures_of(real_path);
    const TemporaryFolder temporary;
    SynthOptions options = profile_options("root");
    options.queries = real.all.queries;
    {
        SynthSink sink(temporary.file("root.pcap"), trace::OutputForm::kPcap);
        Synthesizer synthesizer(check_options(options), {"com", "net", "org", "arpa", "de", "uk"},
                                sink);
        while (synthesizer.step()) {
        }
        synthesizer.finish();
    }
    const TraceFigures made = figures_of(temporary.file("root.pcap"));
    const auto queries = static_cast<double>(real.all.queries);
    const auto near = [&](std::uint64_t a, std::uint64_t b, double tolerance) {
        EXPECT_NEAR(static_cast<double>(a) / queries, static_cast<double>(b) / queries, tolerance);
    };
    near(made.edns, real.edns, 0.02);
    near(made.dnssec_ok, real.dnssec_ok, 0.02);
    near(made.ipv6.queries, real.ipv6.queries, 0.02);
    near(made.transports.at("tcp").queries, real.transports.at("tcp").queries, 0.004);
    near(made.recursion_desired, real.recursion_desired, 0.005);
    for (const int number : {1, 28, 2, 12, 33, 43, 6, 255}) {
        const auto type = static_cast<std::uint16_t>(number);
        near(made.types.at(type), real.types.at(type), 0.015);
    }
    EXPECT_NEAR(static_cast<double>(made.sources.size()), static_cast<double>(real.sources.size()),
                150);
    for (const size_t count : {10U, 50U, 200U, 1000U}) {
        EXPECT_NEAR(top_share(made, count), top_share(real, count), 0.04) << count;
    }
    EXPECT_NEAR(made.gaps.standard_deviation() / made.gaps.mean(),
                real.gaps.standard_deviation() / real.gaps.mean(), 0.1);
}

} // namespace
} // namespace reprise::mutator
