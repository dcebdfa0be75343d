#pragma once
// The command line of a program: options that fill variables, subcommands, --help. It is CLI11's,
// whose header takes a compiler so long that command_line.cc alone includes it.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace CLI { // NOLINT(readability-identifier-naming): the library's own
class App;
class Option;
} // namespace CLI

namespace reprise {

/// A handle to an option of a Command, which must outlive it.
class Option {
public:
    Option required();
    /// The heading in --help below which the option stands.
    Option group(std::string_view heading);
    /// Leaves it out of --help.
    Option hidden();
    /// In --help, in place of the type's own name.
    Option type_name(std::string_view name);
    /// Shows in --help what the variable holds now.
    Option show_default();

    /// Refuses numbers outside of `low` to `high`. T is int, unsigned, std::uint64_t or double.
    template <typename T> Option in_range(T low, T high);
    Option positive();
    Option non_negative();
    Option one_of(const std::vector<std::string>& words);
    /// `complaint` says what is wrong with a value; nothing where it is right.
    Option check(const std::function<std::string(const std::string&)>& complaint);
    /// Refuses the option where `other` is not given.
    Option needs(const Option& other);

    /// For vectors: whether several values may follow the option's name once.
    Option allow_extra_args(bool allow);
    /// For vectors: how many values an option takes.
    Option expected(int count);
    /// The option may be given without a value; it then has this one.
    Option optional_value(std::string_view value);
    /// For vectors: an option given again adds to the values.
    Option take_all();
    /// For vectors: what stands between the values in one argument.
    Option delimiter(char between);
    /// Sets the variable as soon as the option is met, before those of other options.
    Option trigger_on_parse();

private:
    friend class Command;

    explicit Option(CLI::Option* option) : option_(option) {}

    CLI::Option* option_;
};

/// A program's command line, or one of its subcommands; copies are the same command. Variables
/// that are given to it must outlive parsing.
class Command {
public:
    /// `name` is the program's in --help.
    explicit Command(const std::string& help = "", const std::string& name = "");

    /// `names` are like "-o,--output", or "TRACE" for an argument without a name. T is one of those
    /// at the end of command_line.cc.
    template <typename T>
    Option add_option(std::string_view names, T& value, std::string_view help);
    Option add_flag(std::string_view names, bool& value, std::string_view help);
    Option add_option_function(std::string_view names,
                               const std::function<void(const std::string&)>& function,
                               std::string_view help);
    /// An option whose values have names on the command line; the names must outlive parsing.
    template <typename Enum>
    Option add_choice(std::string_view names, Enum& value,
                      std::vector<std::pair<std::string_view, Enum>> choices,
                      std::string_view help);

    Command add_subcommand(std::string_view name, std::string_view help);
    /// So many of the subcommands must be given.
    void require_subcommand(int count);
    void set_version_flag(std::string_view names, std::string_view version);
    /// A flag that prints a text and ends the program, whatever else is given.
    void add_text_flag(std::string_view names, const std::function<std::string()>& text,
                       std::string_view help);
    /// Text below the options in --help.
    void footer(std::string_view text);
    /// Where the help texts of options begin, also those of subcommands added later.
    void column_width(std::size_t width);
    /// Called when this subcommand was parsed.
    void callback(const std::function<void()>& function);

    /// Reads the command line. Returns the exit status where that was all there was to do (--help,
    /// --version). Throws UsageError, in one line with the hint.
    std::optional<int> parse(int argc, const char* const* argv) {
        return parse(std::vector<std::string>(argv + 1, argv + argc));
    }

    /// The same of the words after the program's name.
    std::optional<int> parse(const std::vector<std::string>& words);

    [[nodiscard]] bool got_subcommand(const std::string& name) const;
    [[nodiscard]] Command get_subcommand(const std::string& name) const;
    /// How many values an option was given.
    [[nodiscard]] std::size_t count(const std::string& option) const;

private:
    explicit Command(std::shared_ptr<CLI::App> app) : app_(std::move(app)) {}

    /// Another command of the same program, which it keeps alive.
    [[nodiscard]] Command relative(CLI::App* app) const;

    std::shared_ptr<CLI::App> app_;
};

template <typename Enum>
Option Command::add_choice(std::string_view names, Enum& value,
                           std::vector<std::pair<std::string_view, Enum>> choices,
                           std::string_view help) {
    std::vector<std::string> words;
    words.reserve(choices.size());
    for (const auto& choice : choices) {
        words.emplace_back(choice.first);
    }
    const auto choose = [&value, choices = std::move(choices)](const std::string& word) {
        for (const auto& [name, meaning] : choices) {
            if (name == word) {
                value = meaning;
            }
        }
    };
    return add_option_function(names, choose, help).type_name("ENUM").one_of(words);
}

} // namespace reprise
