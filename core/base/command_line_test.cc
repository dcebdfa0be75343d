#include "core/base/command_line.hh"
#include "core/base/error.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Words = std::vector<std::string>;

enum class Color : std::uint8_t { kRed, kGreen };

/// What is wrong with `words`; empty where nothing is.
std::string complained(Command command, const Words& words) {
    try {
        command.parse(words);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

std::string help(Command command, Words words = {}) {
    words.emplace_back("--help");
    ::testing::internal::CaptureStdout();
    const auto status = command.parse(words);
    std::string text = ::testing::internal::GetCapturedStdout();
    EXPECT_EQ(status, 0);
    return text;
}

/// A command with --n of the type.
template <typename T> struct OneOption {
    T value{};
    Command command;
    Option option = command.add_option("--n", value, "a value");

    std::string complained(const std::string& text) {
        return reprise::complained(command, {"--n", text});
    }
};

TEST(Command, ReadsEachType) {
    std::string text;
    int small = 0;
    std::uint16_t port = 0;
    std::uint32_t word = 0;
    std::uint64_t large = 0;
    double real = 0;
    bool flag = false;
    Command command;
    command.add_option("TEXT", text, "");
    command.add_option("--small", small, "");
    command.add_option("-p,--port", port, "");
    command.add_option("--word", word, "");
    command.add_option("--large", large, "");
    command.add_option("--real", real, "");
    command.add_flag("--flag", flag, "");
    EXPECT_EQ(command.parse({"--small", "-7", "a b", "-p53", "--word=4294967295", "--large",
                             "18446744073709551615", "--real", "-2.5e3", "--flag"}),
              std::nullopt);
    EXPECT_EQ(text, "a b");
    EXPECT_EQ(small, -7);
    EXPECT_EQ(port, 53);
    EXPECT_EQ(word, UINT32_MAX);
    EXPECT_EQ(large, UINT64_MAX);
    EXPECT_EQ(real, -2500);
    EXPECT_TRUE(flag);
}

TEST(Command, ReadsWhatMainIsGiven) {
    OneOption<int> one;
    const std::vector<const char*> words{"program", "--n", "3"};
    EXPECT_EQ(one.command.parse(3, words.data()), std::nullopt);
    EXPECT_EQ(one.value, 3);
}

TEST(Command, OptionsLeftOutStayEmpty) {
    std::optional<unsigned> number;
    std::optional<std::uint64_t> large;
    std::optional<double> real;
    Command command;
    command.add_option("--number", number, "");
    command.add_option("--large", large, "");
    command.add_option("--real", real, "");
    command.parse(Words{});
    EXPECT_FALSE(number || large || real);
    command.parse({"--number", "0", "--large", "1", "--real", "2"});
    EXPECT_EQ(number, 0U);
    EXPECT_EQ(large, 1U);
    EXPECT_EQ(real, 2);
}

TEST(Command, TypesHaveTheirRange) {
    OneOption<std::uint16_t> port;
    EXPECT_EQ(port.complained("65535"), "");
    EXPECT_EQ(port.complained("65536"), "Could not convert: --n = 65536; see --help");
    EXPECT_NE(port.complained("-1"), "");
    OneOption<std::uint32_t> word;
    EXPECT_EQ(word.complained("4294967295"), "");
    EXPECT_NE(word.complained("4294967296"), "");
    EXPECT_NE(word.complained("-1"), "");
    OneOption<std::optional<unsigned>> maybe;
    EXPECT_NE(maybe.complained("-1"), "");
    OneOption<std::vector<std::uint16_t>> ports;
    EXPECT_NE(ports.complained("65536"), "");
    OneOption<int> number;
    EXPECT_NE(number.complained("2147483648"), "");
    EXPECT_NE(number.complained("1.5"), "");
    EXPECT_NE(number.complained("one"), "");
    OneOption<double> real;
    EXPECT_NE(real.complained("1.5s"), "");
}

TEST(Command, AValueMayBeLeftOut) {
    OneOption<unsigned> one;
    one.option.in_range(0U, 9U).optional_value("7");
    one.command.parse(Words{});
    EXPECT_EQ(one.value, 0U);
    one.command.parse({"--n"});
    EXPECT_EQ(one.value, 7U);
    EXPECT_EQ(one.complained("3"), "");
    EXPECT_EQ(one.value, 3U);
    EXPECT_NE(one.complained("10"), "");
}

TEST(Command, RangesAreChecked) {
    OneOption<std::uint16_t> port;
    port.option.in_range(1, 65'535);
    EXPECT_THAT(port.complained("0"), ContainsRegex("^--n: Value 0 not in range "
                                                    "(1 to 65535|\\[1 - 65535\\]); see --help$"));
    EXPECT_EQ(port.complained("1"), "");
    EXPECT_EQ(port.complained("65535"), "");
    EXPECT_NE(port.complained("65536"), "");
    EXPECT_THAT(help(port.command), HasSubstr("--n UINT:INT in [1 - 65535]"));
    OneOption<double> real;
    real.option.in_range(0.5, 2.0);
    EXPECT_NE(real.complained("0.4"), "");
    EXPECT_EQ(real.complained("2"), "");
    OneOption<std::uint64_t> count;
    count.option.positive();
    EXPECT_NE(count.complained("0"), "");
    EXPECT_NE(count.complained("-1"), "");
    EXPECT_EQ(count.complained("1"), "");
    OneOption<double> size;
    size.option.non_negative();
    EXPECT_NE(size.complained("-1"), "");
    EXPECT_EQ(size.complained("0"), "");
}

TEST(Command, ChecksOfOnesOwn) {
    OneOption<std::string> one;
    one.option.check(
        [](const std::string& text) { return text == "good" ? "" : text + " is bad"; });
    EXPECT_EQ(one.complained("good"), "");
    EXPECT_EQ(one.complained("evil"), "--n: evil is bad; see --help");
}

TEST(Command, WordsAreOfAList) {
    OneOption<std::string> one;
    one.option.one_of({"pcap", "text"});
    EXPECT_EQ(one.complained("text"), "");
    EXPECT_EQ(one.value, "text");
    EXPECT_EQ(one.complained("tex"), "--n: tex not in {pcap,text}; see --help");
    EXPECT_THAT(help(one.command), HasSubstr("--n TEXT:{pcap,text}"));
}

TEST(Command, ChoicesHaveNames) {
    Color color = Color::kRed;
    Command command;
    command.add_choice("--color", color, {{"red", Color::kRed}, {"green", Color::kGreen}}, "");
    command.parse(Words{});
    EXPECT_EQ(color, Color::kRed);
    command.parse({"--color", "green"});
    EXPECT_EQ(color, Color::kGreen);
    EXPECT_EQ(complained(command, {"--color", "blue"}),
              "--color: blue not in {red,green}; see --help");
    EXPECT_NE(complained(command, {"--color", "0"}), "");
    EXPECT_EQ(color, Color::kGreen);
    EXPECT_THAT(help(command), HasSubstr("--color ENUM:{red,green}"));
}

TEST(Command, RequiredOptionsAreMissed) {
    OneOption<std::string> one;
    one.option.required();
    EXPECT_EQ(complained(one.command, {}), "--n is required; see --help");
    EXPECT_EQ(one.complained("x"), "");
    EXPECT_THAT(help(one.command), HasSubstr("--n TEXT REQUIRED"));
}

TEST(Command, UnknownOptionsAreRefused) {
    OneOption<std::string> one;
    EXPECT_EQ(complained(one.command, {"--m", "x"}),
              "The following arguments were not expected: x --m; see --help");
    EXPECT_NE(complained(one.command, {"word"}), "");
    EXPECT_NE(complained(one.command, {"--n"}), "");
    EXPECT_NE(complained(one.command, {"--n", "x", "--n", "y"}), "");
}

TEST(Command, OptionsNeedEachOther) {
    std::string key;
    bool resume = false;
    Command command;
    const Option needed = command.add_option("--key", key, "");
    command.add_flag("--resume", resume, "").needs(needed);
    EXPECT_EQ(complained(command, {"--resume"}), "--resume requires --key; see --help");
    EXPECT_EQ(complained(command, {"--key", "k", "--resume"}), "");
    EXPECT_EQ(complained(command, {"--key", "k"}), "");
}

TEST(Command, ListsTakeSeveralValues) {
    Words many;
    Words lone;
    Words parted;
    Words last;
    Command command;
    command.add_option("--many", many, "");
    command.add_option("--lone", lone, "").allow_extra_args(false);
    command.add_option("--parted", parted, "").delimiter(',').allow_extra_args(false);
    command.add_option("LAST", last, "").expected(1).take_all();
    command.parse({"--many", "a", "b", "--lone", "c", "--lone", "d", "--parted", "e,f", "g"});
    EXPECT_THAT(many, ElementsAre("a", "b"));
    EXPECT_THAT(lone, ElementsAre("c", "d"));
    EXPECT_THAT(parted, ElementsAre("e", "f"));
    EXPECT_THAT(last, ElementsAre("g"));
    EXPECT_EQ(command.count("--lone"), 2U);
}

TEST(Command, FunctionsRunAtOnceWhereAsked) {
    std::string size = "small";
    Command command;
    command.add_option_function(
               "--like", [&size](const std::string& name) { size = name; }, "")
        .trigger_on_parse();
    command.add_option("--size", size, "");
    command.parse({"--size", "huge", "--like", "big"});
    EXPECT_EQ(size, "huge");
    command.parse({"--like", "big"});
    EXPECT_EQ(size, "big");
    command.parse({"--like", "big", "--like", "vast"});
    EXPECT_EQ(size, "vast");
}

// How CLI11 words these depends on its release.
TEST(Command, HelpShowsDefaults) {
    std::string name = "none";
    double rate = 1.5;
    std::vector<std::uint16_t> ports{53, 853};
    unsigned hidden = 12'345;
    Command command("Does it.", "doer");
    command.add_option("--name", name, "its name").show_default();
    command.add_option("--rate", rate, "").show_default().type_name("HZ").group("Speed");
    command.add_option("--port", ports, "").show_default();
    command.add_option("--hidden", hidden, "");
    command.footer("That is all.");
    const std::string text = help(command);
    EXPECT_THAT(text, HasSubstr("Does it.\nUsage: doer [OPTIONS]\n"));
    EXPECT_THAT(text, ContainsRegex("\n  --name TEXT(=none| \\[none\\]) +its name\n"));
    EXPECT_THAT(text, ContainsRegex("\n[^\n]{30}its name\n"));
    EXPECT_THAT(text, ContainsRegex("\nSpeed:\n  --rate HZ(=1\\.5| \\[1\\.5\\])"));
    EXPECT_THAT(text, ContainsRegex("--port UINT(=\\[53,853\\]| \\[\\[53,853\\]\\]) +\\.\\.\\."));
    EXPECT_THAT(text, HasSubstr("That is all."));
    EXPECT_THAT(text, Not(HasSubstr("12345")));
    command.column_width(40);
    EXPECT_THAT(help(command), ContainsRegex("\n[^\n]{40}its name\n"));
}

TEST(Command, TheVersionIsAllThereIsToDo) {
    Command command;
    command.set_version_flag("--version", "1.2");
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(command.parse({"--version"}), 0);
    EXPECT_EQ(::testing::internal::GetCapturedStdout(), "1.2\n");
}

TEST(Command, OneSubcommandIsRun) {
    std::string file;
    int met = 0;
    Command program("", "program");
    program.require_subcommand(1);
    Command read = program.add_subcommand("read", "Reads.");
    read.add_option("FILE", file, "").required();
    read.callback([&met] { ++met; });
    program.add_subcommand("write", "Writes.");
    EXPECT_EQ(complained(program, {"read", "x"}), "");
    EXPECT_EQ(file, "x");
    EXPECT_EQ(met, 1);
    EXPECT_TRUE(program.got_subcommand("read"));
    EXPECT_FALSE(program.got_subcommand("write"));
    EXPECT_EQ(program.get_subcommand("read").count("FILE"), 1U);
    EXPECT_EQ(complained(program, {}), "A subcommand is required; see --help");
    EXPECT_EQ(complained(program, {"read"}), "FILE is required; see --help");
    EXPECT_NE(complained(program, {"delete"}), "");
    EXPECT_NE(complained(program, {"write", "x"}), "");
    EXPECT_THAT(help(program), HasSubstr("Reads."));
    EXPECT_THAT(help(program, {"read"}), HasSubstr("Usage: program read [OPTIONS] FILE"));
}

TEST(Command, ASubcommandKeepsItsProgram) {
    std::string file;
    std::optional<Command> program(std::in_place);
    Command read = program->add_subcommand("read", "");
    program.reset();
    read.add_option("FILE", file, "");
    EXPECT_THAT(complained(read, {"x"}), IsEmpty());
    EXPECT_EQ(file, "x");
}

TEST(Command, NamesTheNearestOption) {
    double rate = 0;
    Command command;
    command.add_subcommand("make", "").add_option("--rate", rate, "");
    EXPECT_EQ(complained(command, {"make", "--rtae", "5"}),
              "--rtae is not an option; did you mean --rate?");
    EXPECT_EQ(complained(command, {"make", "--rat=5"}),
              "--rat is not an option; did you mean --rate?");
    EXPECT_THAT(complained(command, {"make", "--wholly-other"}), HasSubstr("; see --help"));
}

} // namespace
} // namespace reprise
