// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,specialize-inner{bytes=24},tile-loops{loops=inner sizes=3},prefetch{what=rows loop=outer}"

// The rows of the next slice are prefetched where the tiles of a row begin, before the loop over the tiles.
// CHECK: gather.loop indices(%i)
// CHECK: memref.prefetch %data[%{{.*}}, %ahead, %row_line, %c0{{.*}}]
// CHECK: gather.loop inner_o(%j_o)
// CHECK: gather.loop inner_i(%j_i)
func.func @gather(%data: tensor<30x9x6xf32>, %indices: tensor<70xi64>) -> tensor<30x70x6xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds zero : tensor<30x9x6xf32>, tensor<70xi64> -> tensor<30x70x6xf32>
  func.return %r : tensor<30x70x6xf32>
}
