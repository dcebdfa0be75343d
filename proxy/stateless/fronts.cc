#include "proxy/stateless/fronts.hh"

#include "proxy/stateless/bpf/bpf_front.hh"
#include "proxy/stateless/common/front.hh"
#include "proxy/stateless/common/options.hh"
#include "proxy/stateless/userspace/front.hh"

#include <memory>

namespace reprise::proxy {

std::unique_ptr<Front> make_front(const StatelessOptions& options) {
    if (options.front == FrontKind::kBpf) {
        return std::make_unique<BpfFront>(options);
    }
    return stateless::make_reference_front(options);
}

} // namespace reprise::proxy
