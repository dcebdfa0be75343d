#pragma once
#include "core/trace/forms/query_encoder.hh"

#include <memory>

namespace reprise::trace {

/// Queries as the stream form (stream_form.hh). A frame ends at 256 records and where a
/// batch ends (QueryEncoder::flush()).
std::unique_ptr<QueryEncoder> make_stream_encoder();

} // namespace reprise::trace
