#include "controller/input.hh"

#include "core/trace/reader.hh"

#include <string>
#include <utility>

namespace reprise::controller {

TraceInput::TraceInput(std::string path, trace::ReaderOptions options)
    : path_(std::move(path)), options_(std::move(options)), reader_(path_, options_) {}

void TraceInput::restart() {
    counters_ = counters();
    packets_ = packets();
    trouble_ = trouble();
    reader_ = trace::Reader(path_, options_);
}

trace::Counters TraceInput::counters() const {
    trace::Counters sum = counters_;
    for (const auto& [name, count] : reader_.counters()) {
        sum[name] += count;
    }
    return sum;
}

std::string TraceInput::trouble() const { return trouble_.empty() ? reader_.trouble() : trouble_; }

} // namespace reprise::controller
