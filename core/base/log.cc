#include "core/base/log.hh"

#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/json.hh"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace reprise {
namespace {

constexpr Nanoseconds kInterval = 5 * kSecond; ///< between lines of Progress

/// The text with escapes such as \x1b instead of control characters, which a terminal would obey;
/// line ends and tabs become spaces.
std::string printable(std::string_view text) {
    constexpr unsigned kC1 = 0xc2; // the first byte of U+0080 to U+009F, whose second is their last
    std::string out;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const auto byte = static_cast<unsigned char>(text[at]);
        const bool upper =
            byte == kC1 && at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) < 0xa0;
        if (upper) {
            out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[++at]));
        } else if (byte < 0x20 || byte == 0x7f) {
            out +=
                (byte == '\n' || byte == '\t') ? std::string(" ") : fmt::format("\\x{:02x}", byte);
        } else {
            out += text[at];
        }
    }
    return out;
}

} // namespace

void init_log(std::string_view program) {
    auto logger = spdlog::stderr_logger_mt(std::string(program));
    logger->set_pattern("time=%Y-%m-%dT%H:%M:%S.%fZ level=%l program=%n pid=%P %v",
                        spdlog::pattern_time_type::utc);
    logger->flush_on(spdlog::level::info);
    spdlog::set_default_logger(std::move(logger));
}

Complaint complaint(std::string_view text) {
    const std::size_t end = text.rfind("; ");
    if (end == std::string_view::npos) {
        return {.what = std::string(text), .hint = ""};
    }
    return {.what = std::string(text.substr(0, end)), .hint = std::string(text.substr(end + 2))};
}

void print_error(std::string_view program, std::string_view text, const Complaint& parts) {
    fmt::print(stderr, "{}: error: {}\n", program, printable(text));
    const char* form =
        std::getenv("REPRISE_ERRORS"); // NOLINT(concurrency-mt-unsafe): set by nobody
    if (form != nullptr && std::string_view(form) == "json") {
        fmt::print(stderr, "{}\n", json_text({{"error", parts.what}, {"hint", parts.hint}}));
    }
}

void print_error(std::string_view program, std::string_view text) {
    print_error(program, text, complaint(text));
}

int run_main(std::string_view program, int (*body)(int, char**), int argc, char** argv) {
    try {
        signal(SIGPIPE,
               SIG_IGN); // a neighbor that went away is an error of its write, not our end
        init_log(program);
        return body(argc, argv);
    } catch (const UsageError& error) {
        print_error(program, error.what());
        return 2;
    } catch (const std::exception& error) {
        print_error(program, error.what());
        return 1;
    }
}

std::string log_value(std::string_view text) {
    if (!text.empty() && text.find_first_of(" =\"\t\n") == std::string_view::npos) {
        return printable(text);
    }
    std::string out;
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
        }
        out += c;
    }
    return '"' + printable(out) + '"';
}

double Progress::elapsed_s() const {
    return static_cast<double>(SteadyClock::now() - started_) / 1e9;
}

void Progress::look(std::uint64_t done) {
    if (check_ != nullptr) {
        check_();
    }
    const Nanoseconds elapsed = SteadyClock::now() - started_;
    if (elapsed - printed_ < kInterval) {
        return;
    }
    printed_ = elapsed;
    const double seconds = static_cast<double>(elapsed) / 1e9;
    spdlog::info("work={} done={} rate={:.0f} elapsed_s={:.0f}", what_, done,
                 static_cast<double>(done) / seconds, seconds);
}

} // namespace reprise
