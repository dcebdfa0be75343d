#include "core/base/bytes.hh"
#include "core/rules/message/message_editor.hh"
#include "core/rules/testing/messages.hh"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::rules {
namespace {

using testing::MessageMaker;
using testing::Octets;

constexpr size_t kQuestionEnd = 12 + 17 + 4; // www.example.com.

TEST(MessageLayout, QuestionAlone) {
    const Octets message = testing::plain();
    const auto layout = parse_layout(message);
    EXPECT_TRUE(layout.header && layout.asks && layout.whole);
    EXPECT_EQ(layout.name_end, kQuestionEnd - 4);
    EXPECT_EQ(layout.opt, 0U);
    EXPECT_EQ(layout.place, message.size());
    EXPECT_FALSE(layout.is_signed || layout.compressed || layout.pinned);
}

TEST(MessageLayout, OptBeforeASignature) {
    const Octets message = MessageMaker().question("www.example.com.").opt().tsig().bytes();
    const auto layout = parse_layout(message);
    EXPECT_TRUE(layout.whole && layout.is_signed);
    EXPECT_EQ(layout.opt, kQuestionEnd);
    EXPECT_EQ(layout.opt_end, kQuestionEnd + kOptSize);
    EXPECT_EQ(layout.place, layout.opt_end);
}

TEST(MessageLayout, SignaturesAreLastAndSigCoversNothing) {
    const std::string_view covers_none("\0\0.other 16 bytes.\0", 19);
    const std::string_view covers_a("\0\1.other 16 bytes.\0", 19);
    const auto signed_by = [](std::string_view data, bool more) {
        MessageMaker maker;
        maker.question("a.").record(3, std::string_view("\0", 1), 24, data);
        return parse_layout((more ? maker.opt() : maker).bytes()).is_signed;
    };
    EXPECT_TRUE(signed_by(covers_none, false));
    EXPECT_FALSE(signed_by(covers_none, true));
    EXPECT_FALSE(signed_by(covers_a, false));
}

TEST(MessageLayout, EveryCutIsNotWhole) {
    const Octets message = MessageMaker().question("www.example.com.").opt().tsig().bytes();
    for (size_t size = 0; size < message.size(); ++size) {
        const auto layout = parse_layout(Bytes(message).first(size));
        EXPECT_FALSE(layout.whole) << size;
        EXPECT_EQ(layout.header, size >= 12) << size;
        EXPECT_EQ(layout.name_end != 0, size >= kQuestionEnd) << size;
    }
}

TEST(MessageLayout, BytesBehindTheLastRecordAreNoHarm) {
    const Octets message = MessageMaker().question("www.example.com.").raw("more").bytes();
    EXPECT_TRUE(parse_layout(message).whole);
    EXPECT_EQ(parse_layout(message).place, kQuestionEnd);
}

TEST(MessageLayout, WithoutAQuestion) {
    const auto layout = parse_layout(MessageMaker().opt().bytes());
    EXPECT_TRUE(layout.whole && !layout.asks);
    EXPECT_EQ(layout.name_end, 0U);
    EXPECT_EQ(layout.opt, 12U);
}

TEST(MessageLayout, TwoOptsOrAnOwnerAreMalformed) {
    EXPECT_FALSE(parse_layout(MessageMaker().question("a.").opt().opt().bytes()).whole);
    const auto owned =
        MessageMaker().question("a.").record(3, std::string_view("\1a\0", 3), 41, "");
    EXPECT_FALSE(parse_layout(owned.bytes()).whole);
    const auto elsewhere =
        MessageMaker().question("a.").record(1, std::string_view("\0", 1), 41, "");
    EXPECT_TRUE(parse_layout(elsewhere.bytes()).whole);
    EXPECT_EQ(parse_layout(elsewhere.bytes()).opt, 0U);
}

TEST(MessageLayout, NamesAreChecked) {
    const auto whole = [](std::string_view owner) {
        return parse_layout(MessageMaker().question("a.").record(1, owner, 1, "").bytes()).whole;
    };
    EXPECT_TRUE(whole("\xc0\x0c"));
    EXPECT_FALSE(whole("\xc0\x0b")) << "into the header";
    EXPECT_FALSE(whole("\xc0\x13")) << "to itself";
    EXPECT_FALSE(whole("\xc1\x0c")) << "ahead";
    EXPECT_FALSE(whole("\x80\x0c")) << "reserved";
    std::string longest;
    for (int i = 0; i < 127; ++i) {
        longest += "\1a";
    }
    EXPECT_TRUE(whole(longest + '\0'));
    EXPECT_FALSE(whole(longest + "\1a" + '\0'));
}

TEST(MessageLayout, QuestionNamesAreChecked) {
    EXPECT_EQ(
        parse_layout(MessageMaker().raw(std::string_view("\xc0\x0c\0\1\0\1", 6)).bytes()).name_end,
        0U);
    Octets message = testing::plain();
    message[12] = 64;
    EXPECT_FALSE(parse_layout(message).whole);
    EXPECT_TRUE(parse_layout(message).asks);
}

TEST(MessageLayout, CompressionIsSeenInOwnersAndData) {
    const auto compressed = [](std::string_view owner, std::uint16_t type, std::string_view data) {
        const auto layout =
            parse_layout(MessageMaker().question("a.").record(1, owner, type, data).bytes());
        EXPECT_TRUE(layout.whole);
        return layout.compressed;
    };
    const std::string_view root("\0", 1);
    EXPECT_TRUE(compressed("\xc0\x0c", 1, "addr"));
    EXPECT_TRUE(compressed(root, 2, "\1b\xc0\x0c"));
    EXPECT_TRUE(compressed(root, 15, std::string_view("\0\1\xc0\x0c", 4)));
    EXPECT_TRUE(compressed(root, 35, std::string_view("\0\1\0\1\1S\1T\1!\xc0\x0c", 12)));
    EXPECT_FALSE(compressed(root, 16, "\2\xc0\x0c"));
    EXPECT_FALSE(compressed(root, 2, ""));
}

TEST(MessageLayout, SecondQuestionsMayPointBack) {
    Octets message =
        MessageMaker().question("a.").raw(std::string_view("\xc0\x0c\0\1\0\1", 6)).bytes();
    message[5] = 2;
    EXPECT_TRUE(parse_layout(message).whole);
    EXPECT_TRUE(parse_layout(message).compressed);
}

TEST(MessageLayout, PinnedByPointersBehindOpt) {
    const auto pinned = [](std::string_view owner) {
        MessageMaker maker; // OPT begins at 19, the A record's owner at 30, the last's at 47
        maker.question("a.").opt().record(3, std::string_view("\1b\0", 3), 1, "addr");
        const auto layout = parse_layout(maker.record(3, owner, 1, "addr").bytes());
        EXPECT_TRUE(layout.whole);
        return layout.pinned;
    };
    EXPECT_FALSE(pinned(std::string_view("\0", 1)));
    EXPECT_FALSE(pinned("\xc0\x0c")) << "to the question";
    EXPECT_TRUE(pinned("\xc0\x1e")) << "to the record behind OPT";
}

TEST(MessageLayout, LongerThanAMessageIsNone) {
    Octets message = testing::plain();
    message.resize(65'535);
    EXPECT_TRUE(parse_layout(message).whole);
    message.resize(65'536);
    EXPECT_FALSE(parse_layout(message).header);
}

} // namespace
} // namespace reprise::rules
