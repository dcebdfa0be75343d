// The forms through pipes whose writer waits between rows, and through every compression.
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/signals.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/trace/testing/cbor.hh"
#include "core/trace/testing/forms.hh"
#include "core/trace/testing/packets.hh"
#include "core/trace/testing/reader.hh"
#include "core/wire/query.hh"

#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h> // NOLINT(modernize-deprecated-headers): pthread_kill is not in csignal
#include <stop_token>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace reprise::trace {
namespace {

using namespace test; // NOLINT(google-build-using-namespace)
using ::testing::EndsWith;
using ::testing::HasSubstr;

/// Standard input is a pipe for as long as this lives; the test writes into it and reads from it
/// in turn, so it would hang where the reader waited for more than is there.
class PipedInput {
public:
    PipedInput() : saved_(check(dup(STDIN_FILENO), "dup")) {
        std::array<int, 2> ends{};
        check(pipe2(ends.data(), O_CLOEXEC), "pipe2");
        writer_ = FileDescriptor(ends[1]);
        const FileDescriptor reader(ends[0]);
        check(dup2(reader.get(), STDIN_FILENO), "dup2");
    }

    ~PipedInput() { dup2(saved_.get(), STDIN_FILENO); }

    PipedInput(const PipedInput&) = delete;
    PipedInput& operator=(const PipedInput&) = delete;

    void write(const std::string& text) {
        ASSERT_EQ(::write(writer_.get(), text.data(), text.size()),
                  static_cast<ssize_t>(text.size()));
    }

    void close() { writer_ = FileDescriptor(); }

private:
    FileDescriptor saved_;
    FileDescriptor writer_;
};

std::vector<OwnQuery> whole_queries(unsigned count) {
    QueryMaker maker(11);
    std::vector<OwnQuery> out;
    while (out.size() < count) {
        OwnQuery query = maker.next();
        if (!query.message.empty()) {
            out.push_back(query);
        }
    }
    return out;
}

void expect_next(Reader& reader, const OwnQuery& expected) {
    Query query;
    ASSERT_TRUE(reader.next(query)) << reader.trouble();
    EXPECT_TRUE(own(query) == expected);
}

TEST(LivePipe, TextComesRowByRow) {
    const auto in = whole_queries(5);
    PipedInput input;
    input.write(as_text({in[0]}));
    Reader reader("-");
    expect_next(reader, in[0]);
    for (size_t i = 1; i < in.size(); ++i) {
        std::string row;
        append_text_row(row, in[i].view());
        input.write(row);
        expect_next(reader, in[i]);
    }
    input.close();
    Query query;
    EXPECT_FALSE(reader.next(query));
    EXPECT_EQ(reader.trouble(), "");
}

TEST(LivePipe, StreamComesFrameByFrame) {
    const auto in = whole_queries(5);
    PipedInput input;
    const auto encoder = make_stream_encoder();
    std::string bytes;
    encoder->begin(bytes);
    encoder->encode(in[0].view(), bytes);
    encoder->flush(bytes);
    input.write(bytes);
    Reader reader("-");
    expect_next(reader, in[0]);
    for (size_t i = 1; i < in.size(); ++i) {
        bytes.clear();
        encoder->encode(in[i].view(), bytes);
        encoder->flush(bytes);
        input.write(bytes);
        expect_next(reader, in[i]);
    }
    bytes.clear();
    encoder->finish(bytes);
    input.write(bytes);
    input.close();
    Query query;
    EXPECT_FALSE(reader.next(query));
    EXPECT_EQ(reader.trouble(), "");
}

TEST(LivePipe, CdnsComesBlockByBlock) {
    const Buffer block = cbor_map({{0, cbor_map({{0, cbor_array({cbor(1'475'762'151), cbor(0)})}})},
                                   {2, cbor_map({{2, cbor_array({cbor_bytes(hex("01 61 00"))})}})},
                                   {3, cbor_array({cbor_map({{7, cbor(0)}})})}});
    PipedInput input;
    const auto write = [&input](const Buffer& bytes) { input.write({bytes.begin(), bytes.end()}); };
    write(hex("9f") + cbor_text("C-DNS") + cbor_map({{0, cbor(1)}}) + hex("9f") + block);
    Reader reader("-");
    Query query;
    EXPECT_TRUE(reader.next(query)) << reader.trouble();
    write(block);
    EXPECT_TRUE(reader.next(query)) << reader.trouble();
    write(hex("ff ff"));
    input.close();
    EXPECT_FALSE(reader.next(query));
    EXPECT_EQ(reader.trouble(), "");
}

TEST(LivePipe, AWriterThatGoesAway) {
    PipedInput input;
    const std::string whole = as_stream(whole_queries(5));
    input.write(whole.substr(0, whole.size() - 12));
    input.close();
    Reader reader("-");
    Query query;
    unsigned count = 0;
    while (reader.next(query)) {
        ++count;
    }
    EXPECT_EQ(count, 5U);
    EXPECT_THAT(reader.trouble(), HasSubstr("the stream is cut (5 queries were good)"));
}

/// Or a pipe that stands still could not be left by ctrl-C.
TEST(LivePipe, ANotedSignalEndsTheWait) {
    note_signals({SIGUSR1});
    PipedInput input;
    const auto in = whole_queries(1);
    input.write(as_text(in));
    Reader reader("-");
    expect_next(reader, in[0]);
    const pthread_t waiting = pthread_self();
    const std::jthread sender([waiting](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
            pthread_kill(waiting, SIGUSR1);
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    });
    Query query;
    EXPECT_FALSE(reader.next(query));
    EXPECT_THAT(reader.trouble(), HasSubstr("Interrupted system call"));
}

struct Compression {
    const char* name;
    int code;
};

class Compressed : public ::testing::TestWithParam<Compression> {};

std::string compress(const std::string& content, int code) {
    std::string out(content.size() + (1U << 20U), '\0');
    size_t used = 0;
    archive* a = archive_write_new();
    archive_write_add_filter(a, code);
    archive_write_set_format_raw(a);
    EXPECT_EQ(archive_write_open_memory(a, out.data(), out.size(), &used), ARCHIVE_OK);
    archive_entry* entry = archive_entry_new();
    archive_entry_set_filetype(entry, AE_IFREG);
    EXPECT_EQ(archive_write_header(a, entry), ARCHIVE_OK);
    EXPECT_EQ(archive_write_data(a, content.data(), content.size()),
              static_cast<la_ssize_t>(content.size()));
    archive_entry_free(entry);
    EXPECT_EQ(archive_write_close(a), ARCHIVE_OK);
    archive_write_free(a);
    out.resize(used);
    return out;
}

TEST_P(Compressed, TextAndStream) {
    const auto in = whole_queries(1'500);
    for (const std::string& content : {as_text(in), as_stream(in)}) {
        const ReadAll read = read_content(compress(content, GetParam().code));
        EXPECT_EQ(read.trouble + read.refused, "");
        EXPECT_TRUE(read.queries == in);
        EXPECT_THAT(read.description, EndsWith(std::string(", ") + GetParam().name));
    }
}

/// A compressed file that was cut: what came before is good, and the cut is told.
TEST_P(Compressed, Cut) {
    const auto in = whole_queries(1'500);
    for (const std::string& content : {as_text(in), as_stream(in)}) {
        const std::string whole = compress(content, GetParam().code);
        const ReadAll read = read_content(whole.substr(0, whole.size() * 3 / 4));
        EXPECT_LT(read.queries.size(), in.size());
        EXPECT_TRUE(std::equal(read.queries.begin(), read.queries.end(), in.begin()));
        EXPECT_NE(read.trouble + read.refused, "");
    }
}

INSTANTIATE_TEST_SUITE_P(Forms, Compressed,
                         ::testing::Values(Compression{"gzip", ARCHIVE_FILTER_GZIP},
                                           Compression{"bzip2", ARCHIVE_FILTER_BZIP2},
                                           Compression{"xz", ARCHIVE_FILTER_XZ},
                                           Compression{"zstd", ARCHIVE_FILTER_ZSTD},
                                           Compression{"lz4", ARCHIVE_FILTER_LZ4}),
                         [](const auto& test) { return std::string(test.param.name); });

} // namespace
} // namespace reprise::trace
