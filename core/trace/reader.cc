#include "core/trace/reader.hh"

#include "core/trace/capture_source.hh"
#include "core/trace/message_source.hh"
#include "core/trace/source.hh"

#include <cstdint>
#include <memory>
#include <string>

namespace reprise::trace {

Reader::Reader(const std::string& path, const ReaderOptions& options)
    : source_(open_capture(open_source(path), options)) {}

Reader::~Reader() = default;
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;

bool Reader::next(Message& message) { return source_->next(message); }

Counters Reader::counters() const { return source_->counters(); }

std::uint64_t Reader::packets() const { return source_->packets(); }

const std::string& Reader::trouble() const { return source_->trouble(); }

double Reader::share_read() const { return source_->share_read(); }

std::string Reader::description() const { return source_->description(); }

} // namespace reprise::trace
