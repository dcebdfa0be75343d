#pragma once
// Records' data as zone files have it.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace reprise::zonebuilder {

/// The type's name where BIND, NSD and libzscanner of any age read its data by name, else TYPEn.
std::string type_text(std::uint16_t type);

/// Presentation form of an rdata, through libknot. Types without a name above are written as bytes
/// (RFC 3597).
class RdataText {
public:
    RdataText();
    ~RdataText();
    RdataText(const RdataText&) = delete;
    RdataText& operator=(const RdataText&) = delete;
    RdataText(RdataText&&) = delete;
    RdataText& operator=(RdataText&&) = delete;

    /// False where it cannot be written; `out` is as it was then.
    bool append(std::string& out, std::uint16_t type, std::string_view rdata);

    /// Whether the data is such as its type has, so that a server loads it.
    bool is_valid(std::uint16_t type, std::string_view rdata);

private:
    struct Dump;

    std::unique_ptr<Dump> dump_;
};

} // namespace reprise::zonebuilder
