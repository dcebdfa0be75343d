#include "zonebuilder/commands.hh"

#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/base/host.hh"
#include "core/base/output_file.hh"
#include "core/base/text.hh"
#include "core/base/trace_time.hh"
#include "core/trace/chunk.hh"
#include "core/trace/feed.hh"
#include "core/trace/pairs.hh"
#include "core/wire/query.hh"
#include "zonebuilder/reconstruct/build.hh"
#include "zonebuilder/reconstruct/observations.hh"
#include "zonebuilder/reconstruct/response.hh"

#include <fmt/format.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <linux/capability.h>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {
namespace {

struct CaptureOptions {
    std::vector<std::string> captures;
    std::vector<std::uint16_t> ports{53};
    std::string output;
    std::string at;
    Dnssec dnssec = Dnssec::kKeep;
};

Nanoseconds parse_at(const std::string& text) {
    if (text.empty()) {
        return Observations::kFirst;
    }
    const auto time = TraceTime::parse(text);
    if (!time || !time->absolute) {
        throw UsageError(fmt::format("--at {} is no time; give seconds since 1970 or one like "
                                     "2016-10-06T13:55:51Z",
                                     text));
    }
    return time->value;
}

/// By the zone's name where that can be a file's, else by a number.
void name_files(std::vector<Draft>& zones, const NameTable& names) {
    constexpr std::size_t kLongest = 200;
    std::set<std::string> taken;
    for (std::size_t i = 0; i < zones.size(); ++i) {
        const std::string name = names.name(zones[i].name).text();
        const bool plain =
            name.size() <= kLongest && name.find_first_of("\\/*") == std::string::npos;
        std::string& file = zones[i].file;
        file = name == "." ? "root.zone" : plain ? name + "zone" : "";
        for (std::size_t number = i; file.empty() || !taken.insert(file).second; ++number) {
            file = fmt::format("zone-{}.zone", number);
        }
    }
}

/// Says what is wrong with which capture.
int tell_trouble(const std::vector<trace::Feed::File>& files) {
    int status = 0;
    for (const trace::Feed::File& file : files) {
        if (!file.end.trouble.empty()) {
            status = 1;
            fmt::print(stderr, "reprise-zonebuilder: {}: {}; the rest is used\n", file.path,
                       file.end.trouble);
        }
    }
    return status;
}

int run_build(const CaptureOptions& options) {
    Observations seen(parse_at(options.at));
    const CaptureCounts counts = observe(options.captures, options.ports, seen);
    if (counts.used == 0) {
        throw Error(fmt::format("{} has no response of a name server that can be used ({} queries, "
                                "{} responses); capture port 53 between the resolver and the "
                                "Internet",
                                options.captures.front(), counts.queries, counts.responses));
    }
    const Hierarchy hierarchy(seen);
    Drafts drafts = make_drafts(seen, hierarchy);
    complete(seen, hierarchy, drafts);
    name_files(drafts.zones, seen.names());
    const OutputFolder output(options.output, "build.json", ".zone");
    for (const Draft& zone : drafts.zones) {
        output.write(zone.file, zone_text(zone, seen, options.dnssec));
    }
    const BuildReport report{
        .counts = counts, .seen = seen, .hierarchy = hierarchy, .drafts = drafts};
    output.write("zones.json", zones_json(report));
    output.write("build.json", build_json(report));
    fmt::print("{}", build_summary(report));
    flush_output("the summary to standard output", "the zones are whole");
    return tell_trouble(counts.files);
}

int run_exchanges(const CaptureOptions& options) {
    trace::Feed feed({.paths = options.captures,
                      .reader = {.ports = options.ports},
                      .responses = trace::Responses::kWhole});
    feed.open();
    give_up({CAP_DAC_READ_SEARCH});
    trace::AskedBefore queries;
    feed.each([&](const Query& query) {
        if (!query.is_response()) {
            queries.query(query);
            return true;
        }
        if (queries.response(query) == trace::Asked::kNo) {
            return true;
        }
        std::string line =
            fmt::format("{}.{:09}\t{}\t{}\t", query.time / kSecond, query.time % kSecond,
                        query.source.address.text(), transport_name(query.transport));
        append_hex(line, query.message);
        fmt::print("{}\n", line);
        return true;
    });
    flush_output("to standard output", "make room, or read all of it");
    return tell_trouble(feed.files());
}

} // namespace

void add_capture_commands(Command& app, int& status) {
    const auto options = std::make_shared<CaptureOptions>();
    Command build = app.add_subcommand(
        "build", "From captures of what name servers answered: zones, and who serves them");
    build
        .add_option("CAPTURE", options->captures,
                    "Captures of the traffic between resolvers and "
                    "name servers, of any form that Reprise reads")
        .required();
    build.add_option("-o,--output", options->output, "Folder to write into").required();
    build.add_option("--at", options->at,
                     "Of answers that changed, take those of this time (RFC 3339, or seconds "
                     "since 1970) instead of the first");
    build.add_choice("--dnssec", options->dnssec,
                     {{"keep", Dnssec::kKeep}, {"strip", Dnssec::kStrip}},
                     "keep: DNSSEC records as they were seen; strip: none");
    build.footer("Writes a file for each zone, zones.json (which addresses serve which) and "
                 "build.json (what was\nchosen, dropped and made up, and why). `reprise zones "
                 "plan` reads the folder.\nExit status: 0 done; 1 a capture is cut or cannot be "
                 "read; 2 usage.\n\n"
                 "Example: reprise-zonebuilder build upstream.pcap -o zones");
    build.callback([options, &status] { status = run_build(*options); });
    Command exchanges = app.add_subcommand(
        "exchanges", "Responses of captures to what was asked, a line each, for programs");
    exchanges.add_option("CAPTURE", options->captures, "Captures, of any form that Reprise reads")
        .required();
    exchanges.footer(
        "Columns, with tabs between: seconds since 1970, the server's address, udp, tcp or another "
        "transport,\nand the response in hexadecimal. Responses to what was not asked are left "
        "out.\n"
        "Exit status: 0 done; 1 a capture is cut or cannot be read; 2 usage.");
    exchanges.callback([options, &status] { status = run_exchanges(*options); });
    for (Command command : {build, exchanges}) {
        command.add_option("--port", options->ports, "Port of name servers; may be repeated")
            .expected(1)
            .take_all();
    }
}

void flush_output(std::string_view what, std::string_view hint) {
    if (std::fflush(stdout) != 0) {
        throw Error(fmt::format("cannot write {}: {}; {}", what, std::strerror(errno), hint));
    }
}

namespace fs = std::filesystem;

OutputFolder::OutputFolder(fs::path path, const std::string& report, std::string_view ending)
    : path_(std::move(path)) {
    std::error_code error;
    fs::create_directories(path_, error);
    if (error) {
        throw Error(fmt::format("cannot make {}: {}; give -o another folder", path_.string(),
                                error.message()));
    }
    const bool former = fs::remove(path_ / report, error);
    if (former && !ending.empty()) {
        for (auto entry = fs::directory_iterator(path_, error);
             !error && entry != fs::directory_iterator(); entry.increment(error)) {
            if (entry->path().string().ends_with(ending)) {
                fs::remove(entry->path(), error);
            }
        }
    }
    if (error) {
        throw Error(fmt::format("cannot clear {} of what was made before: {}; give -o another "
                                "folder",
                                path_.string(), error.message()));
    }
}

void OutputFolder::write(const std::string& name, std::string_view text) const {
    try {
        write_whole(path_ / name, text);
    } catch (const SystemError& error) {
        throw Error(fmt::format("cannot write {}: {}; give -o a folder with rights and room",
                                (path_ / name).string(), error.code().message()));
    }
}

} // namespace reprise::zonebuilder
