// RUN: gathernest-opt %s -p "nest,drop-unit-loops,prefetch{what=rows loop=indices lines=3}"

// A row of 20 elements ends in its second line: the third stands at the last element.
// CHECK: memref.prefetch %data[%{{.*}}, %position, %c0{{.*}}]
// CHECK: %c16{{.*}} = arith.constant 16 : index
// CHECK-NEXT: memref.prefetch %data[%{{.*}}, %position, %c16{{.*}}]
// CHECK: %c19 = arith.constant 19 : index
// CHECK-NEXT: memref.prefetch %data[%{{.*}}, %position, %c19]
func.func @gather(%data: tensor<9x20xf32>, %indices: tensor<70xi64>) -> tensor<70x20xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds clip : tensor<9x20xf32>, tensor<70xi64> -> tensor<70x20xf32>
  func.return %r : tensor<70x20xf32>
}
