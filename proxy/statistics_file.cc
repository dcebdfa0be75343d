#include "proxy/statistics_file.hh"

#include "core/base/log.hh"
#include "core/base/whole_file.hh"

#include <spdlog/spdlog.h>

#include <exception>
#include <string>
#include <utility>

namespace reprise::proxy {

StatisticsFile::StatisticsFile(std::string path, Text text)
    : path_(std::move(path)), text_(std::move(text)) {}

void StatisticsFile::write() const {
    if (!path_.empty()) {
        write_whole(path_, text_(), Durable::kNo);
    }
}

void StatisticsFile::write_or_warn() {
    try {
        write();
        unwritten_ = false;
    } catch (const std::exception& error) {
        if (!std::exchange(unwritten_, true)) {
            spdlog::warn("event=no_statistics because={} hint=\"make room there, or end the run "
                         "and give another --stats\"",
                         log_value(error.what()));
        }
    }
}

} // namespace reprise::proxy
