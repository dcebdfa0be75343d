#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/trace/testing/packets.hh"
#include "mutator/output/output_file.hh"
#include "mutator/testing/mutate.hh"
#include "mutator/testing/support.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::mutator {
namespace {

using test::kBegin;
using test::TimedPacket;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using trace::test::dns;
using trace::test::ipv4;
using trace::test::udp;

class MutateTest : public ::testing::Test {
protected:
    std::string capture(const std::string& name, unsigned queries) {
        std::vector<TimedPacket> packets;
        packets.reserve(queries);
        for (unsigned i = 0; i < queries; ++i) {
            packets.push_back({ipv4(udp(1000 + i % 60'000, 53, dns(static_cast<std::uint16_t>(i)))),
                               kBegin + i * kMillisecond});
        }
        test::write_capture(folder_.file(name), packets);
        return folder_.file(name);
    }

    std::string run(std::vector<std::string> arguments, const std::string& output, int status = 0) {
        arguments.insert(arguments.begin(), "mutate");
        arguments.insert(arguments.end(), {"-o", folder_.file(output)});
        EXPECT_EQ(run_words(arguments), status);
        return folder_.file(output);
    }

    TemporaryFolder folder_;
};

TEST_F(MutateTest, RulesComeInTheOrderOfTheCommandLine) {
    const std::string file = folder_.file("r.toml");
    std::ofstream(file) << "seed = 7\n[[rule]]\nkind = \"header\"\nrd = \"on\"\n";
    run({"--speed", "2", capture("in", 3), "--edns", "do=on", "--rules", file, "--edns",
         "size=1232", "--speed", "factor=3", "--seed", "9", "--report", folder_.file("r.json")},
        "x.rps");
    const std::string report = file_text(folder_.file("r.json"));
    EXPECT_THAT(report, HasSubstr(R"("seed":9)"));
    EXPECT_THAT(report, ContainsRegex("kind\":\"speed.*kind\":\"edns.*kind\":\"header.*"
                                      "kind\":\"edns.*kind\":\"speed"));
}

TEST_F(MutateTest, TheFormIsTheEndingOrWhatIsAskedFor) {
    const std::string in = capture("in", 3);
    EXPECT_EQ(test::read_lines(run({in}, "a.pcap")).size(), 3U);
    EXPECT_THAT(file_text(run({in}, "a.txt")), StartsWith("#reprise-text"));
    EXPECT_THAT(file_text(run({in, "--to", "stream"}, "b.txt")), StartsWith("RPSTREAM"));
    EXPECT_THROW(run_words({"mutate", in, "-o", "-"}), UsageError);
    EXPECT_THROW(run({in}, "a.pcapng"), UsageError);
    EXPECT_THROW(run({in, "--loop", "2"}, "a.rps"), UsageError) << "removed";
}

TEST_F(MutateTest, FormsRoundTrip) {
    const std::string path = capture("in", 5'000);
    const std::string text = run({path}, "a.tsv");
    const std::string stream = run({text}, "a.rps");
    const std::string back = run({stream, "--jobs", "3"}, "a.pcap");
    EXPECT_EQ(test::read_lines(back), test::read_lines(path));
}

TEST_F(MutateTest, AnyNumberOfJobsGivesTheSameBytes) {
    const std::string path = capture("in", 5'000);
    const std::vector<std::string> arguments{
        path, "--edns", "do=on,share=30", "--transport", "tcp:50,udp:50", "--jitter", "us=900"};
    std::string one;
    for (const char* ending : {"pcap", "tsv", "rps"}) {
        one = file_text(run(arguments, std::string("1.") + ending));
        std::vector<std::string> more = arguments;
        more.insert(more.end(), {"--jobs", "4"});
        EXPECT_EQ(file_text(run(more, std::string("4.") + ending)), one) << ending;
    }
}

TEST_F(MutateTest, RulesThatMakeManyQueriesEmitThemInPieces) {
    const std::string path = capture("in", 40);
    const std::vector<std::string> arguments{
        path,          "--duplicate", "copies=150", "--attack", "130000,for=1,fixed=a",
        "--duplicate", "copies=2",    "--header",   "cd=on"};
    const std::string one = run(arguments, "1.rps");
    std::vector<std::string> more = arguments;
    more.insert(more.end(), {"--jobs", "4"});
    EXPECT_EQ(file_text(run(more, "4.rps")), file_text(one));
    EXPECT_NEAR(static_cast<double>(test::read_lines(one).size()), 2 * (6'000 + 5'070), 500);
}

TEST_F(MutateTest, ACutInputIsWrittenAsFarAsItGoes) {
    const std::string path = capture("cut", 10);
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 3);
    ::testing::internal::CaptureStderr();
    const std::string out = run({path, capture("whole", 10)}, "a.rps", 1);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("cut: the trace is cut"));
    EXPECT_EQ(test::read_lines(out).size(), 19U);
}

TEST_F(MutateTest, NothingIsLeftWhereNothingCouldBeRead) {
    EXPECT_THROW(run({folder_.file("missing")}, "a.rps"), Error);
    EXPECT_TRUE(folder_.empty());
}

TEST_F(MutateTest, AStageThatFailsLeavesNothing) {
    const std::string path = capture("in", 5'000);
    EXPECT_THROW(run({path, "--transport", "to=tls"}, "a.pcap"), Error);
    EXPECT_THROW(run({path, "--transport", "to=tls", "--jobs", "3"}, "a.pcap"), Error);
    EXPECT_FALSE(std::filesystem::exists(folder_.file("a.pcap")));
    EXPECT_FALSE(std::filesystem::exists(folder_.file("a.pcap.partial")));
}

TEST_F(MutateTest, ARuleThatSurveysSeesTheWholeTraceFirst) {
    std::vector<TimedPacket> packets;
    for (unsigned i = 0; i < 30; ++i) { // the busy source comes late
        const std::string source = i < 10 ? "192.0.2." + std::to_string(i + 1) : "192.0.2.99";
        packets.push_back({ipv4(udp(1000 + i, 53, dns(1)), {.source = source}), kBegin + i});
    }
    test::write_capture(folder_.file("in"), packets);
    const std::string out = run({folder_.file("in"), "--heavy", "top=1"}, "a.tsv");
    EXPECT_EQ(test::read_lines(out).size(), 20U);
}

TEST_F(MutateTest, TheReportCounts) {
    const std::string path = capture("in", 100);
    run({path, "--drop", "share=25", "--report", folder_.file("r.json")}, "a.rps");
    const std::string report = file_text(folder_.file("r.json"));
    EXPECT_THAT(report, HasSubstr(R"("schema":1)"));
    EXPECT_THAT(report, HasSubstr(R"("queries_in":100,"queries_out":75)"));
    EXPECT_THAT(report, HasSubstr(R"("kind":"drop","place":"--drop")"));
}

TEST(OutputFile, AppearsWhole) {
    const TemporaryFolder folder;
    {
        OutputFile file(folder.file("a"));
        file.write("abc");
        EXPECT_FALSE(std::filesystem::exists(folder.file("a")));
        file.finish();
        EXPECT_EQ(file.bytes(), 3U);
    }
    EXPECT_EQ(file_text(folder.file("a")), "abc");
    {
        OutputFile file(folder.file("b"));
        file.write("abc");
    }
    EXPECT_FALSE(std::filesystem::exists(folder.file("b")));
    EXPECT_FALSE(std::filesystem::exists(folder.file("b.partial")));
}

constexpr const char* kTextHeader = "#reprise-text 1\ntime\tsource\tport\ttransport\tconnection"
                                    "\tid\tname\ttype\n";

TEST_F(MutateTest, TheReportCountsWhatIsLostOrOutOfOrder) {
    const std::string path = folder_.file("in.tsv");
    std::ofstream(path) << kTextHeader << "1\t192.0.2.1\t7\ttcp\t1\t1\ta.\tA\n"
                        << "3\t192.0.2.1\t7\ttcp\t2\t1\ta.\tA\n"
                        << "2\t192.0.2.1\t7\ttcp\t1\t1\ta.\tA\n"
                        << "4\t192.0.2.1\t7\ttcp\t2\tclose\t-\t-\n"
                        << "4\t192.0.2.1\t7\ttcp\t1\tclose\t-\t-\n";
    run({path, "--report", folder_.file("r.json")}, "a.pcap");
    EXPECT_THAT(file_text(folder_.file("r.json")),
                HasSubstr(R"("closes_in":2,"closes_out":1,"closes_left_out":1,)"
                          R"("connections_split":1,"out_of_order":1)"));
}

TEST_F(MutateTest, ConnectionsBeyondWhatCanBeReadAreRefused) {
    const std::string path = folder_.file("in.tsv");
    std::ofstream(path) << kTextHeader << "1\t192.0.2.1\t7\ttcp\t281474976710655\t1\ta.\tA\n";
    EXPECT_EQ(test::read_lines(run({path}, "a.rps")).size(), 1U);
    EXPECT_THROW(run({path, capture("more", 1)}, "b.rps"), Error) << "numbered apart";
    EXPECT_FALSE(std::filesystem::exists(folder_.file("b.rps")));
}

TEST_F(MutateTest, ACaptureSaysThatItSplitsWhatARuleMovedToTcp) {
    const auto said = [&](const std::string& name, const std::string& transport = "tcp") {
        testing::internal::CaptureStdout(); // where logs go in tests
        run({capture("in", 5), "--transport", transport}, name);
        return testing::internal::GetCapturedStdout();
    };
    EXPECT_THAT(said("a.pcap"), HasSubstr("work=mutate queries_alone=5 note="));
    EXPECT_THAT(said("a.pcap", "stateless-tcp"), HasSubstr("queries_alone=5"));
    EXPECT_THAT(said("a.pcap", "udp"), testing::Not(HasSubstr("queries_alone")));
    EXPECT_THAT(said("a.rps"), testing::Not(HasSubstr("queries_alone")));
}

TEST_F(MutateTest, TimesBeyondWhatCanBeReadAreRefused) {
    const std::string path = folder_.file("in.tsv");
    std::ofstream(path) << kTextHeader << "0\t192.0.2.1\t7\tudp\t-\t1\ta.\tA\n"
                        << "3000000000\t192.0.2.1\t7\tudp\t-\t1\ta.\tA\n";
    EXPECT_EQ(test::read_lines(run({path}, "a.rps")).size(), 2U);
    EXPECT_THROW(run({path, "--speed", "0.5"}, "b.rps"), Error);
    EXPECT_FALSE(std::filesystem::exists(folder_.file("b.rps")));
}

TEST_F(MutateTest, AReportThatCannotBeWrittenIsRefusedFirst) {
    const std::string path = capture("in", 3);
    const auto refused = [&](const std::string& report) {
        try {
            run({path, "--report", report}, "a.rps");
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    EXPECT_THAT(refused("/nonexistent/r"), HasSubstr("cannot write /nonexistent/r: "));
    EXPECT_THAT(refused("/nonexistent/r"), HasSubstr("give --report a file name"));
    EXPECT_THAT(refused(folder_.file("a.rps")), HasSubstr("--report and -o both write to"));
    EXPECT_THAT(refused(folder_.file("../") +
                        std::filesystem::path(folder_.file("")).parent_path().filename().string() +
                        "/a.rps"),
                HasSubstr("--report and -o both write to"));
    std::filesystem::create_symlink("a.rps", folder_.file("link"));
    EXPECT_THAT(refused(folder_.file("link")), HasSubstr("--report and -o both write to"));
    EXPECT_FALSE(std::filesystem::exists(folder_.file("a.rps")));
}

void write_file(const std::string& path, std::string_view text) {
    OutputFile file(path);
    file.write(text);
    file.finish();
}

TEST(OutputFile, ALinkStaysAndItsFileIsReplaced) {
    const TemporaryFolder folder;
    std::filesystem::create_directory(folder.file("below"));
    std::ofstream(folder.file("below/old")) << "old";
    std::filesystem::create_symlink("below/old", folder.file("a"));
    std::filesystem::create_symlink("a", folder.file("b"));
    std::filesystem::create_symlink("below/new", folder.file("c")); // not there yet
    write_file(folder.file("b"), "one");
    write_file(folder.file("c"), "two");
    for (const char* link : {"a", "b", "c"}) {
        EXPECT_TRUE(std::filesystem::is_symlink(folder.file(link)));
    }
    EXPECT_EQ(file_text(folder.file("below/old")), "one");
    EXPECT_EQ(file_text(folder.file("below/new")), "two");
    EXPECT_FALSE(std::filesystem::exists(folder.file("below/old.partial")));
}

TEST(OutputFile, AnOpenFileIsWrittenDirectly) {
    const TemporaryFolder folder;
    const FileDescriptor open(::open(folder.file("a").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    const std::string name = "/proc/self/fd/" + std::to_string(open.get());
    std::filesystem::create_symlink(name, folder.file("stdout")); // as /dev/stdout
    write_file(folder.file("stdout"), "abc");
    EXPECT_EQ(file_text(folder.file("a")), "abc");
    EXPECT_TRUE(std::filesystem::is_symlink(folder.file("stdout")));
}

TEST(OutputFile, AFullDiskIsOneLine) {
    OutputFile full("/dev/full");
    try {
        full.write("abc");
        FAIL();
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("write /dev/full: No space left on device; free"));
    }
    EXPECT_THROW(OutputFile("/nonexistent/a"), UsageError);
}

} // namespace
} // namespace reprise::mutator
