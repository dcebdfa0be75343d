// reprise-sampler: samples the host it runs in (its network namespace and /proc) into a CSV file
// until SIGTERM, SIGINT or SIGQUIT, on an absolute schedule, and once more at the end.
#include "core/base/clock.hh"
#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/base/log.hh"
#include "core/base/output_file.hh"
#include "core/base/signals.hh"
#include "sampler/sampler.hh"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace reprise::sampler {
namespace {

/// Every sample is whole in the file at once: a run may be cut off.
void write(AppendFile& output, std::string_view text) {
    output.append(text);
    output.flush();
}

int body(int argc, char** argv) {
    Command app{"Samples processes, memory, sockets and packets of this host into a CSV file.",
                "reprise-sampler"};
    std::vector<std::string> processes;
    std::vector<std::string> skipped;
    Ports ports;
    std::string out;
    double hz = 1;
    bool packet_work = false;
    app.add_option("--process", processes, "Process tree to watch, NAME=PID; several times")
        .required();
    app.add_option("--hz", hz, "Samples a second").in_range(0.1, 10.0);
    app.add_option("--skip-interface", skipped,
                   "Do not count packets of this interface (they also pass another one); repeat "
                   "for several");
    app.add_option("--tcp-port", ports,
                   "Count the TCP sockets of this local port only; repeat for several");
    app.add_flag("--packet-work", packet_work,
                 "Measure the CPU time of this host's packets (needs root and a kernel with BTF)");
    app.add_option("-o", out, "File to write").required();
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    std::vector<Watched> watched;
    watched.reserve(processes.size());
    for (const std::string& text : processes) {
        watched.push_back(parse_watched(text));
    }
    const auto interval = static_cast<Nanoseconds>(static_cast<double>(kSecond) / hz);
    Sampler sampler(std::move(watched), interval, std::move(skipped), packet_work,
                    std::move(ports));
    struct stat status{};
    if (stat(out.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_uid != geteuid()) {
        throw Error(
            fmt::format("{} is another user's file; remove it or give -o another name", out));
    }
    AppendFile output(out, AppendFile::Existing::kReplace);
    write(output, kColumns);
    std::cerr << "sampling\n";
    const Signals ends{SIGTERM, SIGINT, SIGQUIT};
    Nanoseconds due = SteadyClock::now();
    do {
        write(output, sampler.sample(false));
        due = std::max(due, SteadyClock::now() - interval) + interval; // no bursts to catch up
    } while (!ends.next(due));
    write(output, sampler.sample(true));
    return 0;
}

} // namespace
} // namespace reprise::sampler

int main(int argc, char** argv) {
    return reprise::run_main("reprise-sampler", reprise::sampler::body, argc, argv);
}
