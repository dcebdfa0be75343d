#include "core/dns/name.hh"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {
namespace {

using Wire = std::vector<std::uint8_t>;

TEST(NameText, EscapesWhatMasterFilesNeedEscaped) {
    const std::string_view name("\4a.b\\\2\1 \0", 9);
    EXPECT_EQ(name_text(bytes_of(name)), "a\\.b\\\\.\\001\\032.");
    EXPECT_EQ(name_text(bytes_of({"\0", 1})), ".");
}

TEST(ParseName, IsTheReverseOfNameText) {
    const std::vector<std::string> texts{".",
                                         "example.com.",
                                         "\\000\\255.x.",
                                         "a\\.b.c.",
                                         R"(\"\(\)\@\$\;\\.)",
                                         "-.",
                                         std::string(63, 'x') + "."};
    for (const std::string& text : texts) {
        Name name;
        ASSERT_EQ(name.parse(text), "") << text;
        EXPECT_EQ(name_text(name.bytes()), text);
        std::string behind = "x";
        append_name_text(behind, name.bytes());
        EXPECT_EQ(behind, "x" + text);
    }
}

TEST(ParseName, TakesNamesAsPeopleWriteThem) {
    Name name;
    ASSERT_EQ(name.parse("eXample.com"), "");
    EXPECT_EQ(name_text(name.bytes()), "eXample.com.");
    ASSERT_EQ(name.parse("\\097\\b"), "");
    EXPECT_EQ(name_text(name.bytes()), "ab.");
}

TEST(ParseName, SaysWhatIsWrong) {
    const std::string label(63, 'x');
    const std::string longest = label + "." + label + "." + label + "." + std::string(61, 'x');
    Name name;
    EXPECT_EQ(name.parse(longest), "");
    EXPECT_EQ(name.bytes().size(), 255U);
    EXPECT_EQ(name.parse(longest + "."), "");
    EXPECT_EQ(name.parse(longest + "x"), "takes over 255 bytes");
    EXPECT_EQ(name.parse(longest + ".x"), "takes over 255 bytes");
    EXPECT_EQ(name.parse(label + "x"), "has a label of over 63 bytes");
    EXPECT_EQ(name.parse(std::string(10'000, 'x')), "takes over 255 bytes");
    EXPECT_EQ(name.parse(""), "is empty");
    for (const char* empty : {"..", ".x", "x..", "x..y"}) {
        EXPECT_EQ(name.parse(empty), "has an empty label") << empty;
    }
    for (const char* escape : {"\\", "x\\", "\\25", "\\256", "\\2x5", "\\25x"}) {
        EXPECT_TRUE(name.parse(escape).starts_with("has a broken escape")) << escape;
    }
}

Wire wire_bytes(const std::string& text) {
    const Name name = parse_name(text).value_or(Name());
    return {name.bytes().begin(), name.bytes().end()};
}

TEST(Names, ParseAsTheyAreWritten) {
    EXPECT_EQ(wire_bytes("."), Wire{0});
    EXPECT_EQ(wire_bytes("a.b"), (Wire{1, 'a', 1, 'b', 0}));
    EXPECT_EQ(wire_bytes("a.b."), wire_bytes("a.b"));
    EXPECT_EQ(wire_bytes("a\\.b"), (Wire{3, 'a', '.', 'b', 0}));
    EXPECT_EQ(wire_bytes("\\000\\255"), (Wire{2, 0, 255, 0}));
    EXPECT_EQ(name_text(wire_bytes("A\\;b.\\032.example.")), "A\\;b.\\032.example.");
    EXPECT_TRUE(parse_name(std::string(63, 'a')));
}

TEST(Names, ThatDoNotParse) {
    const std::string label = std::string(63, 'a') + ".";
    std::string long_name;
    for (int i = 0; i < 4; ++i) {
        long_name += label;
    }
    for (const std::string& text : {std::string(), std::string(".."), std::string("a..b"),
                                    std::string(".a"), std::string("a\\"), std::string("\\25"),
                                    std::string("\\256"), std::string(64, 'a'), long_name}) {
        EXPECT_FALSE(parse_name(text)) << text;
    }
}

TEST(Names, EndAtLabels) {
    EXPECT_TRUE(ends_in(wire_bytes("www.Example.COM"), wire_bytes("example.com")));
    EXPECT_TRUE(ends_in(wire_bytes("example.com"), wire_bytes("example.com")));
    EXPECT_TRUE(ends_in(wire_bytes("example.com"), wire_bytes(".")));
    EXPECT_FALSE(ends_in(wire_bytes("anexample.com"), wire_bytes("example.com")));
    EXPECT_FALSE(ends_in(wire_bytes("com"), wire_bytes("example.com")));
    EXPECT_FALSE(ends_in(Wire{200, 'a', 0}, wire_bytes("c")));
    EXPECT_FALSE(ends_in(Wire{}, wire_bytes("c")));
}

TEST(Names, AreMadeOfParts) {
    Name name;
    EXPECT_TRUE(name.bytes().empty());
    for (int i = 0; i < 3; ++i) {
        name.add_label(std::string(63, 'A'));
    }
    name.add(wire_bytes("b.example"));
    EXPECT_EQ(name_text(name.bytes()).substr(190), "A.b.example.");
    EXPECT_EQ(name.labels().size() + 1, name.bytes().size());
    name.lower();
    EXPECT_TRUE(ends_in(wire_bytes("A.b.EXAMPLE"), wire_bytes("b.example")));
    EXPECT_EQ(name_text(name.bytes()).substr(190), "a.b.example.");
    name.add_label(std::string(63, 'a'));
    EXPECT_TRUE(name.bytes().empty()) << "too long";
    name.add_label("a");
    EXPECT_TRUE(name.labels().empty()) << "still";
    Name root;
    root.add_label({});
    EXPECT_EQ(name_text(root.bytes()), ".");
}

} // namespace
} // namespace reprise
