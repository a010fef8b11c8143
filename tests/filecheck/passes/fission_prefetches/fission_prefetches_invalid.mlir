// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,prefetch-indices{loop=bag},fission-prefetches{loop=bag}" --verify-diagnostics

// expected-error@unknown {{there are no prefetches of locality 2 in bag; run prefetch-indices first}}
func.func @gather(%data: tensor<900x64xf32>, %indices: tensor<70x9xi64>) -> tensor<70x64xf32> {
  %r = gather.gather_reduce %data, %indices bounds zero : tensor<900x64xf32>, tensor<70x9xi64> -> tensor<70x64xf32>
  func.return %r : tensor<70x64xf32>
}
