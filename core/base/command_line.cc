#include "core/base/command_line.hh"

#include "core/base/error.hh"
#include "core/base/text.hh"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstddef>
#include <cstdint> // IWYU pragma: keep: of the instantiations
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

namespace {

/// The subcommand whose options were read last, or the program itself.
const CLI::App& innermost(const CLI::App& app) {
    const auto chosen = app.get_subcommands();
    return chosen.empty() ? app : innermost(*chosen.front());
}

/// What is wrong with words that nothing takes: an option that was misspelled has its nearest
/// named.
std::string unexpected(const CLI::App& app, const CLI::ExtrasError& error) {
    std::vector<std::string> known;
    for (const CLI::Option* option : innermost(app).get_options()) {
        const std::vector<std::string>& names = option->get_lnames();
        known.insert(known.end(), names.begin(), names.end());
    }
    for (const std::string& word : app.remaining(true)) {
        const std::string name = word.starts_with("--") ? word.substr(2, word.find('=') - 2) : "";
        const std::string_view near = nearest_word(name, known);
        if (!near.empty()) {
            return fmt::format("--{} is not an option; did you mean --{}?", name, near);
        }
    }
    return std::string(error.what()) + "; see --help";
}

constexpr const char* kHidden = "hidden";

/// Leaves out the hidden group. (CLI11's own hidden group, "", leaves names out of errors too.)
class Formatter final : public CLI::Formatter {
public:
    std::string make_group(std::string group, bool is_positional,
                           std::vector<const CLI::Option*> options) const override {
        return group == kHidden ? "" : CLI::Formatter::make_group(group, is_positional, options);
    }
};

} // namespace

Option Option::required() { return Option(option_->required()); }

Option Option::group(std::string_view heading) {
    return Option(option_->group(std::string(heading)));
}

Option Option::hidden() { return group(kHidden); }

Option Option::type_name(std::string_view name) {
    return Option(option_->type_name(std::string(name)));
}

Option Option::show_default() { return Option(option_->capture_default_str()); }

template <typename T> Option Option::in_range(T low, T high) {
    return Option(option_->check(CLI::Range(low, high)));
}

Option Option::positive() { return Option(option_->check(CLI::PositiveNumber)); }

Option Option::non_negative() { return Option(option_->check(CLI::NonNegativeNumber)); }

Option Option::one_of(const std::vector<std::string>& words) {
    return Option(option_->check(CLI::IsMember(words)));
}

Option Option::check(const std::function<std::string(const std::string&)>& complaint) {
    return Option(option_->check(CLI::Validator(complaint, "", "")));
}

Option Option::needs(const Option& other) { return Option(option_->needs(other.option_)); }

Option Option::allow_extra_args(bool allow) { return Option(option_->allow_extra_args(allow)); }

Option Option::expected(int count) { return Option(option_->expected(count)); }

Option Option::optional_value(std::string_view value) {
    return Option(option_->expected(0, 1)->default_str(std::string(value)));
}

Option Option::take_all() { return Option(option_->take_all()); }

Option Option::delimiter(char between) { return Option(option_->delimiter(between)); }

Option Option::trigger_on_parse() { return Option(option_->trigger_on_parse()); }

Command::Command(const std::string& help, const std::string& name)
    : app_(std::make_shared<CLI::App>(help, name)) {
    app_->formatter(std::make_shared<Formatter>());
}

template <typename T>
Option Command::add_option(std::string_view names, T& value, std::string_view help) {
    return Option(app_->add_option(std::string(names), value, std::string(help)));
}

Option Command::add_flag(std::string_view names, bool& value, std::string_view help) {
    return Option(app_->add_flag(std::string(names), value, std::string(help)));
}

Option Command::add_option_function(std::string_view names,
                                    const std::function<void(const std::string&)>& function,
                                    std::string_view help) {
    return Option(
        app_->add_option_function<std::string>(std::string(names), function, std::string(help)));
}

Command Command::add_subcommand(std::string_view name, std::string_view help) {
    return relative(app_->add_subcommand(std::string(name), std::string(help)));
}

void Command::require_subcommand(int count) { app_->require_subcommand(count); }

void Command::set_version_flag(std::string_view names, std::string_view version) {
    app_->set_version_flag(std::string(names), std::string(version));
}

void Command::add_text_flag(std::string_view names, const std::function<std::string()>& text,
                            std::string_view help) {
    app_->add_flag_callback(
        std::string(names), [text] { throw CLI::CallForVersion(text(), 0); }, std::string(help));
}

void Command::footer(std::string_view text) { app_->footer(std::string(text)); }

void Command::column_width(std::size_t width) { app_->get_formatter()->column_width(width); }

void Command::callback(const std::function<void()>& function) { app_->callback(function); }

std::optional<int> Command::parse(const std::vector<std::string>& words) {
    try {
        app_->parse(std::vector<std::string>(words.rbegin(), words.rend())); // it wants them so
    } catch (const CLI::Success& success) {
        return app_->exit(success);
    } catch (const CLI::ExtrasError& error) {
        throw UsageError(unexpected(*app_, error));
    } catch (const CLI::ParseError& error) {
        throw UsageError(std::string(error.what()) + "; see --help");
    }
    return std::nullopt;
}

bool Command::got_subcommand(const std::string& name) const { return app_->got_subcommand(name); }

Command Command::get_subcommand(const std::string& name) const {
    return relative(app_->get_subcommand(name));
}

std::size_t Command::count(const std::string& option) const { return app_->count(option); }

Command Command::relative(CLI::App* app) const {
    return Command(std::shared_ptr<CLI::App>(app_, app));
}

template Option Option::in_range(int, int);
template Option Option::in_range(unsigned, unsigned);
template Option Option::in_range(std::uint64_t, std::uint64_t);
template Option Option::in_range(double, double);

template Option Command::add_option(std::string_view, std::string&, std::string_view);
template Option Command::add_option(std::string_view, int&, std::string_view);
template Option Command::add_option(std::string_view, std::uint16_t&, std::string_view);
template Option Command::add_option(std::string_view, std::uint32_t&, std::string_view);
template Option Command::add_option(std::string_view, std::uint64_t&, std::string_view);
template Option Command::add_option(std::string_view, double&, std::string_view);
template Option Command::add_option(std::string_view, std::optional<unsigned>&, std::string_view);
template Option Command::add_option(std::string_view, std::optional<std::uint64_t>&,
                                    std::string_view);
template Option Command::add_option(std::string_view, std::optional<double>&, std::string_view);
template Option Command::add_option(std::string_view, std::vector<std::string>&, std::string_view);
template Option Command::add_option(std::string_view, std::vector<std::uint16_t>&,
                                    std::string_view);

} // namespace reprise
