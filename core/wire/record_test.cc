#include "core/base/error.hh"
#include "core/wire/record.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
namespace reprise {
namespace {

const std::vector<std::uint8_t> kMessage(29, 0x5a);

Query query(const char* source, const char* destination) {
    return {.sequence = 1'234'567'890'123,
            .time = 1'475'762'151'394'929'001,
            .due = 17'000'001,
            .source = *Endpoint::parse(source),
            .destination = *Endpoint::parse(destination),
            .source_id = 77,
            .connection = 5,
            .transport = Transport::kTcp,
            .message = kMessage};
}

auto fields(const Query& query) {
    return std::tie(query.sequence, query.time, query.due, query.source, query.destination,
                    query.source_id, query.connection, query.transport);
}

void expect_same(const Query& a, const Query& b) {
    EXPECT_TRUE(fields(a) == fields(b));
    EXPECT_TRUE(std::ranges::equal(a.message, b.message));
}

TEST(Record, RoundTripOfBothFamilies) {
    const Query v4 = query("192.0.2.1:1024", "198.51.100.1:53");
    const Query v6 = query("[2001:db8::1]:65535", "[2001:db8::2]:53");
    std::string block;
    append_record(block, v4);
    append_record(block, v6);
    RecordReader reader(bytes_of(block));
    Query out;
    ASSERT_TRUE(reader.next(out));
    expect_same(out, v4);
    ASSERT_TRUE(reader.next(out));
    expect_same(out, v6);
    EXPECT_FALSE(reader.next(out));
    EXPECT_TRUE(reader.ok());
}

TEST(Record, LargestMessage) {
    const std::vector<std::uint8_t> large(65'535, 1);
    Query in = query("192.0.2.1:1", "192.0.2.2:2");
    in.message = large;
    std::string block;
    append_record(block, in);
    RecordReader reader(bytes_of(block));
    Query out;
    ASSERT_TRUE(reader.next(out));
    EXPECT_EQ(out.message.size(), large.size());
}

TEST(Record, ALongerMessageIsRefused) {
    const std::vector<std::uint8_t> large(65'536, 1);
    Query in = query("192.0.2.1:1", "192.0.2.2:2");
    in.message = large;
    std::string block;
    EXPECT_THROW(append_record(block, in), Error);
    EXPECT_EQ(block, "");
}

TEST(Record, EveryCutIsReportedWithItsOffset) {
    std::string first;
    append_record(first, query("192.0.2.1:1", "192.0.2.2:2"));
    const std::string whole = first + first;
    for (size_t size = first.size() + 1; size < whole.size(); ++size) {
        RecordReader reader(bytes_of(whole).first(size));
        Query out;
        EXPECT_TRUE(reader.next(out) && !reader.next(out)) << size;
        EXPECT_FALSE(reader.ok()) << size;
        EXPECT_EQ(reader.offset(), first.size());
    }
}

TEST(Record, BadVersionFamilyAndTransportAreRefused) {
    for (const size_t bad : {4U, 5U, 6U, 7U}) {
        std::string block;
        append_record(block, query("192.0.2.1:1", "192.0.2.2:2"));
        block[bad] = 99;
        RecordReader reader(bytes_of(block));
        Query out;
        EXPECT_FALSE(reader.next(out));
        EXPECT_FALSE(reader.ok()) << bad;
        EXPECT_FALSE(reader.next(out)) << "the error stays";
    }
}

/// Appends `tail` to a record and corrects its size.
std::string with_tail(const std::string& tail) {
    std::string block;
    append_record(block, query("192.0.2.1:1", "192.0.2.2:2"));
    block += tail;
    const auto size = static_cast<std::uint32_t>(block.size() - 4);
    std::copy_n(reinterpret_cast<const char*>(&size), 4, block.begin());
    return block;
}

TEST(Record, UnknownTailFieldsAreSkipped) {
    const std::string block = with_tail(std::string("\x09\x02xy\x08\0", 6));
    RecordReader reader(bytes_of(block));
    Query out;
    EXPECT_TRUE(reader.next(out));
    expect_same(out, query("192.0.2.1:1", "192.0.2.2:2"));
}

TEST(Record, MalformedTailIsCorrupt) {
    const std::string block = with_tail(std::string("\x09\x05xy", 4));
    RecordReader reader(bytes_of(block));
    Query out;
    EXPECT_FALSE(reader.next(out));
    EXPECT_FALSE(reader.ok());
}

TEST(RecordReader, AViewSeesWhatAQueryHas) {
    std::string block;
    append_record(block, query("192.0.2.1:1024", "198.51.100.1:53"));
    append_record(block, query("[2001:db8::1]:65535", "[2001:db8::2]:53"));
    RecordReader reader(bytes_of(block));
    RecordReader whole(bytes_of(block));
    std::string copied;
    RecordView view;
    Query out;
    while (reader.next(view)) {
        ASSERT_TRUE(whole.next(out));
        EXPECT_EQ(view.sequence(), out.sequence);
        EXPECT_EQ(view.trace_time(), out.time);
        EXPECT_EQ(view.due(), out.due);
        EXPECT_EQ(view.source_id(), out.source_id);
        EXPECT_EQ(view.source(), out.source.address);
        copied.append(view.bytes().begin(), view.bytes().end());
    }
    EXPECT_TRUE(reader.ok());
    EXPECT_EQ(copied, block);
}

TEST(RecordReader, TellsACloseFromAQuery) {
    for (const char* source : {"192.0.2.1:1024", "[2001:db8::1]:65535"}) {
        for (const char* destination : {"198.51.100.1:53", "[2001:db8::2]:53"}) {
            Query close = query(source, destination);
            close.message = {};
            std::string block;
            append_record(block, close);
            append_record(block, query(source, destination));
            RecordReader reader(bytes_of(block));
            RecordReader whole(bytes_of(block));
            RecordView view;
            Query out;
            ASSERT_TRUE(reader.next(view) && whole.next(out));
            EXPECT_TRUE(view.is_close());
            EXPECT_TRUE(out.is_close());
            expect_same(out, close);
            ASSERT_TRUE(reader.next(view) && whole.next(out));
            EXPECT_FALSE(view.is_close());
            EXPECT_FALSE(out.is_close());
        }
    }
}

TEST(RecordReader, ARecordTooShortForItsAddressesIsCorrupt) {
    std::string block;
    append_record(block, query("192.0.2.1:1024", "198.51.100.1:53"));
    block.resize(57); // one byte of the message's size is missing
    block[0] = 53;
    RecordReader reader(bytes_of(block));
    RecordView view;
    EXPECT_FALSE(reader.next(view));
    EXPECT_FALSE(reader.ok());
}

TEST(RecordReader, EveryCutIsAnErrorAtItsOffset) {
    std::string block;
    append_record(block, query("192.0.2.1:1024", "198.51.100.1:53"));
    const size_t first = block.size();
    append_record(block, query("[2001:db8::1]:1", "[2001:db8::2]:53"));
    for (size_t cut = first + 1; cut < block.size(); ++cut) {
        RecordReader reader(bytes_of(block).first(cut));
        RecordView view;
        EXPECT_TRUE(reader.next(view));
        EXPECT_FALSE(reader.next(view));
        EXPECT_FALSE(reader.ok());
        EXPECT_EQ(reader.offset(), first);
    }
}

TEST(RecordReader, WhatCannotBeARecordIsRefused) {
    std::string good;
    append_record(good, query("192.0.2.1:1024", "198.51.100.1:53"));
    const auto is_refused = [](const std::string& block) {
        RecordReader reader(bytes_of(block));
        RecordView view;
        return !reader.next(view) && !reader.ok();
    };
    std::string version = good;
    version[4] = 9;
    EXPECT_TRUE(is_refused(version));
    std::string family = good;
    family[6] = 5;
    EXPECT_TRUE(is_refused(family));
    EXPECT_TRUE(is_refused(std::string("\x01\x00\x00\x00\x02", 5)));
    EXPECT_TRUE(is_refused(std::string(4, '\0')));
}

} // namespace
} // namespace reprise

// NOLINTEND(bugprone-unchecked-optional-access)
